// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// noticed is how long a new object may take to reach the log when nothing is broken.
const noticed = time.Minute

// awaitCanaries creates an object in each stream and waits until the log has all of them. A bridge that hangs is found
// here, before the next fault restarts it. When says what happened before.
func (r *round) awaitCanaries(ctx context.Context, when string) error {
	defer r.spend("canaries")()
	r.canaries++
	name := fmt.Sprintf("canary-%d", r.canaries)
	missing := slices.Clone(r.subject.streams)
	var failed error
	for deadline, wait := time.Now().Add(noticed), 50*time.Millisecond; time.Now().Before(deadline); {
		missing, failed = r.missing(ctx, name, missing)
		if failed == nil && len(missing) == 0 {
			return nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, time.Second)
	}
	return r.world.Unsettled(fmt.Sprintf("%s: %s is not in the log after %s: %v %v",
		when, name, noticed, missing, failed))
}

// missing creates an object in each of the streams, unless it exists, and returns those of which the log lacks it.
func (r *round) missing(ctx context.Context, name string, streams []oracle.Stream) ([]oracle.Stream, error) {
	for _, s := range streams {
		if err := r.create(ctx, s, name); err != nil {
			return streams, fmt.Errorf("create %s of %s: %w", name, s, err)
		}
	}
	log, err := r.world.ReadLog(ctx)
	if err != nil {
		return streams, err
	}
	found := map[string]bool{}
	for _, m := range log {
		if !named(m, name) {
			continue
		}
		if e, err := m.Entry(); err == nil {
			found[e.Source+" "+e.Namespace] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(streams), func(s oracle.Stream) bool {
		return found[s.Source()+" "+object(s, name).GetNamespace()]
	}), nil
}

// named reports whether a message may be about an object of a name, without reading all of it.
func named(m rig.Message, name string) bool {
	is := func(key string) bool { return slices.Equal(m.Header[key], []string{name}) }
	return is("ce-name") || is("ce_name") || is(http.CanonicalHeaderKey("ce-name"))
}

// object returns a new object of a stream.
func object(s oracle.Stream, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for _, k := range drive.Kinds() {
		if k.Resource != s.Resource {
			continue
		}
		o.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
		switch {
		case s.Namespace != "":
			o.SetNamespace(s.Namespace)
		case k.Namespaced:
			o.SetNamespace(whole)
		}
	}
	o.SetName(name)
	if s.LabelSelector != "" {
		o.SetLabels(map[string]string{drive.Label: "yes"})
	}
	return o
}

// create makes an object of a stream, unless an earlier request has made it.
func (r *round) create(ctx context.Context, s oracle.Stream, name string) error {
	client, err := dynamic.NewForConfig(r.world.RESTConfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o := object(s, name)
	_, err = client.Resource(s.Resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// misses reports whether a fault, or one of two, was not injected.
func misses(f world.Fault, injected []string) bool {
	return len(injected) < 1+strings.Count(f.Name, together)
}
