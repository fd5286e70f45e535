// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestConfigMaps_are_valid_and_of_the_promised_size(t *testing.T) {
	template := must.Get(newTemplate(configMaps))(t)
	text := template.appendWatched(nil, 1234, baseVersion+77)
	var m corev1.ConfigMap
	require.NoError(t, json.Unmarshal(text, &m))
	assert.Equal(t, identityOf(1234), (objectIdentity{m.Namespace, m.Name, string(m.UID)}))
	assert.Equal(t, strconv.Itoa(baseVersion+77), m.ResourceVersion)
	assert.InDelta(t, 1000, len(text), 100, "bytes of a ConfigMap")
	again := template.appendWatched(nil, 1234, baseVersion+78)
	assert.NotEqual(t, string(text), string(again), "another version differs")
}

func TestPods_are_valid_and_of_the_promised_size(t *testing.T) {
	template := must.Get(newTemplate(pods))(t)
	text := template.appendWatched([]byte("before"), 1234, baseVersion+77)[len("before"):]
	var pod corev1.Pod
	err := json.Unmarshal(text, &pod)
	require.NoError(t, err, "%v\n%s", err, text)
	want := identityOf(1234)
	assert.Equal(t, want, (objectIdentity{pod.Namespace, pod.Name, string(pod.UID)}))
	assert.True(t, pod.ResourceVersion == strconv.Itoa(baseVersion+77) && pod.Kind == "Pod" && pod.APIVersion == "v1",
		"got version %s, kind %s, apiVersion %s", pod.ResourceVersion, pod.Kind, pod.APIVersion)
	require.GreaterOrEqual(t, len(text), 4_500, "a pod has %d bytes", len(text))
	assert.LessOrEqual(t, len(text), 6_500, "a pod has %d bytes", len(text))
	var managed int
	for _, m := range pod.ManagedFields {
		managed += len(m.FieldsV1.GetRawBytes())
	}
	share := float64(managed) / float64(len(text))
	assert.True(t, share >= 0.2 && share <= 0.45, "managedFields are %.2f of a pod", share)
	again := template.appendWatched(nil, 1234, baseVersion+78)
	assert.NotEqual(t, string(text), string(again), "another version does not differ, or has another length")
	assert.Len(t, again, len(text), "another version does not differ, or has another length")
}

func TestVersions_are_those_of_the_history(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &apiServer{objects: rapid.IntRange(1, 20).Draw(t, "objects")}
		emitted := rapid.Uint64Range(0, 100).Draw(t, "emitted")
		versions := make([]uint64, s.objects)
		for i := range versions {
			versions[i] = baseVersion + uint64(i) + 1
		}
		for i := range emitted {
			versions[i%uint64(s.objects)] = s.listVersion(i + 1)
		}
		for i, want := range versions {
			require.Equal(t, want, s.objectVersion(i, emitted), "object %d after %d events", i, emitted)
		}
	})
}

// serve returns a server and a client of it; both end with the test.
func serve(t *testing.T, objects int) (*apiServer, *kubernetes.Clientset, *rest.Config) {
	t.Helper()
	s := must.Get(newAPIServer(pods, objects, 20*time.Millisecond))(t)
	web := httptest.NewServer(s.handler())
	t.Cleanup(web.Close)
	config := &rest.Config{Host: web.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client := must.Get(kubernetes.NewForConfigAndClient(config, web.Client()))(t)
	return s, client, config
}

func TestServer_lists_in_pages_of_one_version(t *testing.T) {
	s, client, _ := serve(t, 25)
	s.emit(3, false)
	var versions, names []string
	options := metav1.ListOptions{Limit: 10}
	for len(versions) < 5 {
		page := must.Get(client.CoreV1().Pods("").List(t.Context(), options))(t)
		s.emit(1, false) // must not be seen by the pages that follow
		versions = append(versions, page.ResourceVersion)
		for _, p := range page.Items {
			names = append(names, p.Name+"="+p.ResourceVersion)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	want := fmt.Sprint(baseVersion + 28)
	assert.Equal(t, fmt.Sprint([]string{want, want, want}), fmt.Sprint(versions),
		"versions of the pages: %v, want %s", versions, want)
	assert.True(t, len(names) == 25 && names[0] == "checkout-00000000=1000000026" &&
		names[3] == "checkout-00000003=1000000004", "listed %v", names)
}

func TestServer_watches_from_a_version(t *testing.T) {
	s, client, _ := serve(t, 3)
	s.emit(4, false)
	w := startWatch(t, client, metav1.ListOptions{
		ResourceVersion:     fmt.Sprint(s.listVersion(2)),
		AllowWatchBookmarks: true,
	})
	expect(t, w, "MODIFIED checkout-00000002 1000000006", "MODIFIED checkout-00000000 1000000007", "BOOKMARK  1000000007")
	s.emit(1, false)
	for { // bookmarks may come first
		if got := next(t, w); got == "MODIFIED checkout-00000001 1000000008" {
			break
		} else if got != "BOOKMARK  1000000007" {
			t.Fatalf("got %s", got)
		}
	}
}

func TestServer_sends_initial_events(t *testing.T) {
	_, client, _ := serve(t, 2)
	w := startWatch(t, client, metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true,
	})
	expect(t, w, "ADDED checkout-00000000 1000000001", "ADDED checkout-00000001 1000000002",
		"BOOKMARK  1000000002 initial-events-end")
}

func TestServer_ends_a_watch_in_time(t *testing.T) {
	_, client, _ := serve(t, 1)
	w := startWatch(t, client, metav1.ListOptions{ResourceVersion: "1000000001", TimeoutSeconds: new(int64(1))})
	select {
	case e, open := <-w.ResultChan():
		assert.False(t, open, "got %v", e)
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
}

func TestServer_is_discovered(t *testing.T) {
	_, client, config := serve(t, 1)
	_, lists := must.Get2(discovery.NewDiscoveryClientForConfigOrDie(config).ServerGroupsAndResources())(t)
	assert.True(t, len(lists) == 1 && lists[0].GroupVersion == "v1" && len(lists[0].APIResources) == 3,
		"discovered %v", lists)
	namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	assert.True(t, err == nil && namespace.UID != "", "kube-system: %v, %v", namespace, err)
}

func TestServer_refuses_what_it_cannot_do(t *testing.T) {
	_, client, _ := serve(t, 1)
	for _, options := range []metav1.ListOptions{
		{LabelSelector: "a=b"},
		{Continue: "x"},
		{ResourceVersion: "5", ResourceVersionMatch: "Exact"},
	} {
		assert.Error(t, must.Err(client.CoreV1().Pods("").List(t.Context(), options)), "listed with %v", options)
	}
}

func startWatch(t *testing.T, client *kubernetes.Clientset, options metav1.ListOptions) watch.Interface {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := client.CoreV1().Pods("").Watch(ctx, options)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Stop(); cancel() })
	return w
}

func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		p, ok := e.Object.(*corev1.Pod)
		require.True(t, ok, "got %v", e)
		text := fmt.Sprintf("%s %s %s", e.Type, p.Name, p.ResourceVersion)
		if p.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			text += " initial-events-end"
		}
		return text
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		return ""
	}
}

func expect(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, e := range want {
		require.Equal(t, e, next(t, w))
	}
}
