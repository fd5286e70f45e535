// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

// programs is where the bridge is built for all tests.
var programs string

func TestMain(m *testing.M) {
	if os.Getenv(asWriter) != "" {
		writer()
	}
	if os.Getenv(asMounter) != "" {
		mounter()
	}
	dir, err := os.MkdirTemp("", "kube-eventbridge-world-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // what is left in a temporary directory hurts nobody
		os.Exit(code)
	}))
}

// built builds the ordinary bridge and the one with another clock, once for all tests.
var built = sync.OnceValues(func() (bins [2]string, err error) {
	ctx := context.Background() //nolint:forbidigo // it is not one test's
	if bins[0], err = Build(ctx, programs); err == nil && !testing.Short() {
		bins[1], err = BuildWithClock(ctx, programs)
	}
	return bins, err
})

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgets    = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"}
)

func widgetCRD() *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.demo.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "demo.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything},
			}},
		},
	}
}

// newWorld starts a world whose bridge runs, and in which something is changed all the time, until the test ends or calm is called.
func newWorld(t *testing.T) (w *World, calm func()) {
	t.Helper()
	return newWorldOf(t, Config{})
}

// newWorldOf says what a world is made of besides.
func newWorldOf(t *testing.T, cfg Config) (w *World, calm func()) {
	t.Helper()
	if _, err := controlplane.Binaries(t.Context(), os.Stderr); err != nil {
		if errors.Is(err, controlplane.ErrUnavailable) && os.Getenv("CI") == "" {
			t.Skipf("SKIPPED, needs a real API server: %v", err)
		}
		t.Fatal(err)
	}
	bins, err := built()
	must(t, err)
	cfg.Binary, cfg.ClockBinary = bins[0], bins[1]
	cfg.Resources = `[{resource: configmaps, namespaces: [default]}, {resource: widgets.demo.example.com}]`
	cfg.CRDs = []*apiextensionsv1.CustomResourceDefinition{widgetCRD()}
	cfg.APIServerArgs = []string{"--request-timeout=5s"} // for so long a graceful stop waits for watches
	w, err = Start(t.Context(), cfg)
	if errors.Is(err, kafkabroker.ErrUnavailable) && os.Getenv("CI") == "" {
		t.Skipf("NOT RUN: needs real Kafka: %v", err)
	}
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what happened:\n%s", w.Story())
		}
		must(t, w.Close())
	})
	must(t, w.StartBridge())
	must(t, w.WaitSettled(t.Context(), 3*time.Minute))
	calm = change(t, w)
	must(t, pollSlowly(t, 30*time.Second, func() bool { end, _ := w.broker.end(); return end > 30 }))
	return w, calm
}

// change changes some objects, also where that fails, until the test ends or calm is called.
func change(t *testing.T, w *World) (calm func()) {
	t.Helper()
	k, err := dynamic.NewForConfig(w.RESTConfig())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	calm = func() {
		cancel()
		work.Wait()
	}
	t.Cleanup(calm)
	for n, gvr := range []schema.GroupVersionResource{configMaps, widgets} {
		work.Go(func() {
			for i := 0; pause.For(ctx, 25*time.Millisecond) == nil; i++ {
				touch(ctx, k, gvr, fmt.Sprintf("o%d-%d", n, i%5), i)
			}
		})
	}
	return calm
}

// touch changes an object, or makes it, or removes it now and then.
func touch(ctx context.Context, k *dynamic.DynamicClient, gvr schema.GroupVersionResource, name string, i int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c := k.Resource(gvr).Namespace("default")
	if i%40 == 39 {
		_ = c.Delete(ctx, name, metav1.DeleteOptions{}) // the API server may be away, as everywhere here
		return
	}
	patch := fmt.Appendf(nil, `{"spec":{"i":"%[1]d"},"data":{"i":"%[1]d"}}`, i)
	if gvr == configMaps {
		patch = fmt.Appendf(nil, `{"data":{"i":"%d"}}`, i)
	}
	if _, err := c.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil || ctx.Err() != nil {
		return
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	if gvr == widgets {
		o.SetAPIVersion("demo.example.com/v1")
		o.SetKind("Widget")
	}
	_, _ = c.Create(ctx, o, metav1.CreateOptions{})
}

// canary makes an object and waits until the log has it: the bridge works.
func canary(t *testing.T, w *World, name string) {
	t.Helper()
	k, err := dynamic.NewForConfig(w.RESTConfig())
	must(t, err)
	must(t, poll(t.Context(), 30*time.Second, "the API server", func() bool {
		touch(t.Context(), k, configMaps, name, 0)
		_, err := k.Resource(configMaps).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}))
	err = pollSlowly(t, 60*time.Second, func() bool {
		log, err := w.ReadLog(t.Context())
		if err != nil {
			return false
		}
		for _, m := range log {
			if strings.HasSuffix(m.Subject, ".configmaps.default."+name) || strings.HasSuffix(m.Key, "/configmaps/default/"+name) {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("the log does not get what was made after the fault: %v; %s", err, w.Bridge().lastWords())
	}
}

func pollSlowly(t *testing.T, within time.Duration, ok func() bool) error {
	t.Helper()
	deadline := time.After(within)
	for !ok() {
		select {
		case <-deadline:
			return fmt.Errorf("not within %s", within)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
