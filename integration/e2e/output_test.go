// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// print runs the bridge without a file or a broker, and returns where it prints.
func (r *fixture) print(format string) (file string) {
	r.t.Helper()
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(r.t)
	out := must.Get(os.CreateTemp(r.dir, "printed-*"))(r.t)
	defer func() { _ = out.Close() }()
	r.start(out, "run", "configmaps", "-n", "default", "-o", format, "--kubeconfig", kubeconfig, "--data-dir",
		filepath.Join(r.dir, "data"), "--listen", r.server)
	return out.Name()
}

// awaitLine waits for a line that has all of words, in their order, and returns all lines.
func (r *fixture) awaitLine(file string, words ...string) (lines []string) {
	r.t.Helper()
	r.poll("a line with "+strings.Join(words, " "), func() (bool, string) {
		text := must.Get(os.ReadFile(file))(r.t)
		lines = strings.Split(string(text), "\n")
		lines = lines[:len(lines)-1] // what follows the last line end is not written wholly
		return slices.ContainsFunc(lines, func(l string) bool { return inOrder(l, words) }), string(text)
	})
	return lines
}

func inOrder(line string, words []string) bool {
	for _, w := range words {
		_, after, found := strings.Cut(line, w)
		if !found {
			return false
		}
		line = after
	}
	return true
}

// A reader that has enough, as head does, ends the bridge as a stop does.
func TestRun_ends_cleanly_if_its_output_is_not_read_any_more(t *testing.T) {
	t.Parallel()
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.configMap("default", "first", nil)
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	r.start(writer, "run", "configmaps", "-n", "default", "-o", "json", "--kubeconfig", kubeconfig, "--data-dir",
		filepath.Join(r.dir, "data"))
	require.NoError(t, writer.Close())
	must.Get(bufio.NewReader(reader).ReadString('\n'))(t)
	require.NoError(t, reader.Close())
	enough := time.After(rig.Patience())
	for n := 0; ; n++ {
		select {
		case <-r.bridge.Ended():
			r.bridge.exit(0)
			assert.Contains(t, r.bridge.stderr(), "the reader of the standard output has ended")
			assert.NotContains(t, r.bridge.stderr(), `"level":"ERROR"`)
			return
		case <-time.After(100 * time.Millisecond):
			r.configMap("default", fmt.Sprint("more-", n), nil)
		case <-enough:
			t.Fatal("the bridge does not end")
		}
	}
}

func TestRun_prints_events_for_a_person_and_goes_on_where_it_was(t *testing.T) {
	t.Parallel()
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.configMap("default", "first", nil)
	file := r.print("wide")
	r.awaitLine(file, "stdout", "snapshot", "configmaps.v1", "default/*", "this was what existed at")
	r.patch("default", "first", `{"data":{"colour":"blue"}}`)
	r.patch("default", "first", `{"data":{"colour":"green"}}`)
	r.remove("default", "first")
	lines := r.awaitLine(file, "stdout", "deleted", "watch", "configmaps.v1", "default/first")
	for i, want := range [][]string{
		{"TIME", "SEQ", "PIPELINE", "OP", "REASON", "RESOURCE", "OBJECT", "VERSION", "MANAGER", "UID", "WHAT"},
		{"stdout", "snapshot", "configmaps.v1", "default/*"},
		{"stdout", "added", "snapshot", "configmaps.v1", "default/first"},
		{"stdout", "snapshot", "configmaps.v1", "default/*"},
		{"stdout", "updated", "watch", "configmaps.v1", "default/first"},
		{"stdout", "updated", "watch", "configmaps.v1", "default/first", "data.colour blue→green"},
		{"stdout", "deleted", "watch", "configmaps.v1", "default/first"},
	} {
		assert.Less(t, i, len(lines), "line %d of %q does", i+1, lines)
		assert.True(t, inOrder(lines[i], want), "line %d of %q does", i+1, lines)
	}
	r.bridge.stop()

	// The next run prints what happened between the runs, and nothing else.
	r.configMap("default", "second", nil)
	file = r.print("json")
	lines = r.awaitLine(file, "default/second")
	r.bridge.stop()
	var event struct{ Specversion, Type, Subject string }
	if err := json.Unmarshal([]byte(lines[0]), &event); err != nil || len(lines) != 1 || event.Specversion != "1.0" ||
		event.Type != "io.kube-eventbridge.resource.added.v1" {
		t.Errorf("the lines are %q, %v", lines, err)
	}
}

func TestAsyncAPI_looks_names_up_in_the_cluster(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{}),
		`[{resource: deploy}, {resource: cm, namespaces: [shop]}]`)
	code, _, said := r.command("asyncapi", "--config", r.config)
	assert.Equal(t, 2, code, "without a cluster it ends")
	assert.Contains(t, said, "--kubeconfig", "without a cluster it ends")
	code, out, said := r.command("asyncapi", "--config", r.config, "--kubeconfig", filepath.Join(r.dir, "kubeconfig"))
	require.Equal(t, 0, code, "it ends")
	require.Empty(t, said, "it ends")
	for _, want := range []string{
		"k8s.e2e.apps.deployments.{namespace}.{name}",
		"const: /clusters/e2e/apis/apps/v1/deployments\n", "const: /clusters/e2e/api/v1/configmaps\n",
	} {
		assert.Contains(t, out, want)
	}
}

// knative publishes with the types, sources and subjects of Knative's event source, and goes on after a crash.
func knative(t *testing.T, api *controlplane.ControlPlane) {
	const ns = "knative"
	resources := fmt.Sprintf("[{resource: configmaps, namespaces: [%s]}]", ns)
	r := rigOn(t, api, resources)
	r.configureSink(resources, fmt.Sprintf("encoding: {profile: knative}\n    sink: {nats: {servers: [%q]}}",
		r.broker.url()))
	r.namespace(ns)
	r.run()
	r.awaitOp("snapshot-completed", 1)
	r.configMap(ns, "a", nil)
	r.patch(ns, "a", `{"data":{"x":"1"}}`)
	r.awaitStory(ns+"/a", "added updated")
	restarted(r)
	r.remove(ns, "a")
	log := r.awaitStory(ns+"/a", "added updated deleted")
	mustBeUnique(t, log)
	host := r.api.RESTConfig().Host
	for _, e := range log {
		typ, src := e.header.Get("ce-type"), e.header.Get("ce-source")
		if e.uid == "" {
			assert.True(t, strings.HasPrefix(typ, "io.kube-eventbridge.stream.") &&
				strings.HasPrefix(src, "/clusters/e2e/"), "a marker has type %s and source %s", typ, src)
			continue
		}
		const subject = "/apis/v1/namespaces/" + ns + "/configmaps/a"
		if !strings.HasPrefix(typ, "dev.knative.apiserver.resource.") || src != host ||
			e.header.Get("ce-subject") != subject {
			t.Errorf("%s has type %s, source %s and subject %s, want %s and %s", e.key, typ, src, e.header.Get("ce-subject"),
				host, subject)
		}
	}
}

// filters leaves out additions, updates of an annotation, and what an expression says, while a bridge runs, while none
// does, and after it.
func filters(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `
      - {resource: configmaps, namespaces: [filters], operations: [updated, deleted], ignoreChanges: ['metadata.annotations["example.com/seen"]'],
         filter: 'event.operation == "deleted" || !has(object.data) || object.data.x != "hidden"'}`)
	r.namespace("filters")
	for _, name := range []string{"a", "b", "c", "end"} {
		r.configMap("filters", name, nil)
	}
	const seen = `{"metadata":{"annotations":{"example.com/seen":"N"}}}`
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "1"))
	r.patch("filters", "b", strings.ReplaceAll(seen, "N", "1"))
	changed := r.patch("filters", "b", `{"data":{"x":"1"}}`)
	r.awaitStory("filters/b", "updated")
	b.stop()

	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "2"))
	r.patch("filters", "b", strings.ReplaceAll(seen, "N", "2"))
	r.remove("filters", "c")
	r.run()
	r.awaitStory("filters/c", "deleted")
	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "3"))
	r.remove("filters", "a")
	r.patch("filters", "end", `{"data":{"x":"hidden"}}`)
	r.patch("filters", "end", `{"data":{"x":"1"}}`)
	r.awaitStory("filters/end", "updated")
	log := r.awaitStory("filters/a", "deleted")
	got := story(log, "filters/b")
	assert.Equal(t, "updated", got, "the log has %q of b", got)
	for _, e := range log {
		if e.key == "filters/b" && e.rv != changed.ResourceVersion {
			t.Errorf("the update of b is that to %s, want %s", e.rv, changed.ResourceVersion)
		}
	}
	r.awaitMetric(`events_filtered_total{pipeline="test",reason="unchanged",stream="configmaps.v1/filters"} 3`)
}
