// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// mount is a directory with a file, as the kubelet mounts a ConfigMap.
type mount struct {
	dir string
	n   int
}

// write has the file be another one, by the symbolic link that the kubelet exchanges.
func (m *mount) write(t *testing.T, text string) {
	t.Helper()
	m.n++
	data := fmt.Sprintf("..%d", m.n)
	require.NoError(t, os.Mkdir(filepath.Join(m.dir, data), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, data, "bridge.yaml"), []byte(text), 0o600))
	next := filepath.Join(m.dir, "..data_tmp")
	require.NoError(t, os.Symlink(data, next))
	require.NoError(t, os.Rename(next, filepath.Join(m.dir, "..data")))
	if m.n == 1 {
		require.NoError(t, os.Symlink(filepath.Join("..data", "bridge.yaml"), m.file()))
	} else {
		require.NoError(t, os.RemoveAll(filepath.Join(m.dir, fmt.Sprintf("..%d", m.n-1))))
	}
}

func (m *mount) file() string { return filepath.Join(m.dir, "bridge.yaml") }

// reloaded is a rig whose file is mounted, and is rewritten while the bridge runs.
type reloaded struct {
	*fixture
	mount *mount
	head  string
}

func newReloaded(t *testing.T) *reloaded {
	t.Helper()
	r := newRig(t, "[]")
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(t)
	m := &mount{dir: t.TempDir()}
	r.config = m.file()
	return &reloaded{
		r, m,
		fmt.Sprintf("cluster: e2e\nkubernetes: {kubeconfig: %q}\ndataDir: %q\nserver: {listen: %s}\npipelines:\n", kubeconfig,
			filepath.Join(r.dir, "data"), r.server),
	}
}

// pipeline is one of a file, with a stream of its own at the broker unless that is the usual one.
func (r *reloaded) pipeline(name, stream, resources string) string {
	subject := "k8s.{cluster}.{group}.{resource}.{namespace}.{name}"
	if stream != "KUBERNETES" {
		subject = strings.ToLower(stream) + ".{group}.{resource}.{namespace}.{name}"
	}
	return fmt.Sprintf("  - name: %s\n    resources: %s\n    sink: {nats: {servers: [%q], stream: %s, subject: %q}}\n",
		name, resources, r.broker.url(), stream, subject)
}

// load rewrites the file, and waits until the bridge goes by it, or has refused it.
func (r *reloaded) load(result, text string) {
	r.t.Helper()
	before := r.count(result)
	r.mount.write(r.t, text)
	r.poll("the configuration to be "+result, func() (bool, string) {
		n := r.count(result)
		return n > before, fmt.Sprintf("%d of them were before, and are %d", before, n)
	})
}

// count returns how many reloads came to a result.
func (r *reloaded) count(result string) (n int) {
	for line := range strings.Lines(r.metrics()) {
		if rest, ok := strings.CutPrefix(line, fmt.Sprintf("kube_eventbridge_config_reloads_total{result=%q} ", result)); ok {
			must.Get(fmt.Sscan(rest, &n))(r.t)
		}
	}
	return n
}

// watched returns how many watches of ConfigMaps the API server has ended so far.
func (r *reloaded) watched() (n int) {
	r.t.Helper()
	raw := must.Get(r.kube.RESTClient().Get().AbsPath("/metrics").DoRaw(r.t.Context()))(r.t)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="configmaps"`) &&
			strings.Contains(line, `verb="WATCH"`) {
			var count int
			must.Get(fmt.Sscan(line[strings.LastIndex(line, " "):], &count))(r.t)
			n += count
		}
	}
	return n
}

// busy changes ConfigMaps and Secrets of the namespace busy until it is stopped. What happens is recorded.
type busy struct {
	*fixture
	truth   *rig.Truth
	stop    context.CancelFunc
	changes *errgroup.Group
	// others says that the pipeline has had streams that are not judged, by a wildcard or a selector of namespaces.
	others bool
	// selected says that what the pipeline selects of the judged kinds has changed: what an entry selects no more is
	// deleted in the log, and listed when it is selected again.
	selected bool
}

// keepBusy begins to make and change ConfigMaps and Secrets all the time.
func (r *fixture) keepBusy() *busy {
	r.t.Helper()
	const ns = "busy"
	r.namespace(ns)
	v1 := corev1.SchemeGroupVersion
	b := &busy{fixture: r, truth: rig.Record(r.t, r.api, r.cluster, v1.WithResource("configmaps"),
		v1.WithResource("secrets"))}
	ctx, stop := context.WithCancel(r.t.Context())
	b.stop = stop
	b.changes, ctx = errgroup.WithContext(ctx)
	r.t.Cleanup(func() {
		stop()
		_ = b.changes.Wait() // end has returned the error, or the test has failed
	})
	configMaps, secrets := r.kube.CoreV1().ConfigMaps(ns), r.kube.CoreV1().Secrets(ns)
	b.keep(ctx, func(name string) error {
		_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c" + name}},
			metav1.CreateOptions{})
		return err
	}, func(name string, i int) error {
		patch := fmt.Appendf(nil, `{"data":{"round":"%d"}}`, i)
		_, err := configMaps.Patch(ctx, "c"+name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	b.keep(ctx, func(name string) error {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s" + name}}, metav1.CreateOptions{})
		return err
	}, func(name string, i int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, i)
		_, err := secrets.Patch(ctx, "s"+name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return b
}

// keep makes an object and changes it nineteen times, then the next one, until ctx ends.
func (b *busy) keep(ctx context.Context, create func(name string) error, change func(name string, i int) error) {
	b.changes.Go(func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			name := fmt.Sprint(i / 20)
			do := func() error { return change(name, i) }
			if i%20 == 0 {
				do = func() error { return create(name) }
			}
			if err := do(); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
}

// end stops the changes, and waits until the log has the last object of each kind, of those that are read.
func (b *busy) end(kinds ...string) {
	t := b.t
	t.Helper()
	b.stop()
	require.NoError(t, b.changes.Wait())
	b.settle("busy")
	if slices.Contains(kinds, "secrets") {
		last := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "the-last-one"}}
		must.Get(b.kube.CoreV1().Secrets("busy").Create(t.Context(), last, metav1.CreateOptions{}))(t)
		b.awaitStory("busy/the-last-one", "added")
		b.awaitStatus(200, "") // it may have come with a list
		b.awaitSettled()
	}
}

// judge ends the changes and compares the log of a pipeline with what happened to some kinds. Reloads and crashes are
// no reason for a gap, unless they change what is selected. What the first list of a kind may hide is for the caller to
// say.
func (b *busy) judge(pipeline string, mayHide bool, kinds ...string) {
	b.t.Helper()
	b.end(kinds...)
	streams := make([]oracle.Stream, len(kinds))
	for i, kind := range kinds {
		streams[i] = rig.CoreStream(b.cluster, kind, "busy")
	}
	o := oracle.Options{Pipeline: pipeline}
	if b.kafka != nil {
		o.Partitions = partitions
	}
	o.Elected = b.elected
	if b.selected {
		o.Gaps = oracle.OnlyGaps(oracle.Selection)
		o.Selected = func(oracle.Stream, string) bool { return true }
	}
	messages := b.messages()
	if b.others {
		messages = slices.DeleteFunc(slices.Clone(messages), func(m rig.Message) bool {
			e := entryOf(&m)
			return !bytes.Contains(m.Data, []byte(`"namespace":"busy"`)) ||
				!slices.ContainsFunc(streams, func(s oracle.Stream) bool { return s.Source() == e.attribute("source") })
		})
	}
	report := b.truth.Judge(messages, o, streams...)
	assert.True(b.t, report.Hidden <= 0 || mayHide, "%d states are hidden", report.Hidden)
}

func TestReload_leaves_alone_what_does_not_change(t *testing.T) {
	t.Parallel()
	r := newReloaded(t)
	const both, one = "[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]",
		"[{resource: configmaps, namespaces: [busy]}]"
	file := r.head + r.pipeline("a", "KUBERNETES", one)
	r.mount.write(t, file)
	r.runReady()
	b := r.keepBusy()
	watches := r.watched()

	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)) // a resource more
	r.awaitStatus(200, "ok")
	// A pipeline more.
	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)+r.pipeline("b", "B", "[{resource: namespaces}]"))
	r.awaitStatus(200, "ok")
	r.poll("the namespaces of the other pipeline", func() (bool, string) {
		return r.seen("B", "namespaces") > 0,
			"there are none"
	})
	r.poll("another Secret", func() (bool, string) { return r.seen("KUBERNETES", "secrets") > 30, "there is none" })

	// A resource less.
	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", one)+r.pipeline("b", "B", "[{resource: namespaces}]"))
	r.poll("the ends of the Secrets", func() (bool, string) {
		return strings.Contains(r.bridge.stderr(), "stream has ended"), "they are not there"
	})
	stopped := r.seen("KUBERNETES", "secrets")
	require.NoError(t, r.kube.CoreV1().Secrets("busy").Delete(t.Context(), "s0", metav1.DeleteOptions{}))
	configMaps := r.seen("KUBERNETES", "configmaps")
	r.poll("ConfigMaps that change", func() (bool, string) {
		return r.seen("KUBERNETES", "configmaps") > configMaps+50, "there are not enough"
	})
	assert.Equal(t, stopped, r.seen("KUBERNETES", "secrets"),
		"events of Secrets are in the log, and were %d when they were left out", stopped)
	metrics := r.metrics()
	require.Contains(t, metrics, "kube_eventbridge_", "the bridge does not answer")
	for line := range strings.Lines(metrics) {
		assert.True(t, !strings.HasPrefix(line, "kube_eventbridge_watch_restarts_total{") ||
			!strings.Contains(line, `stream="configmaps.v1/busy"`), "the watch of ConfigMaps was broken off: %s", line)
	}
	now := r.watched()
	assert.Equal(t, watches, now, "the API server has ended %d watches of ConfigMaps more", now)

	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)) // back, and the pipeline gone
	b.others = true
	b.judge("a", false, "configmaps")
	b.selected = true
	b.judge("a", true, "secrets") // their lists have only last states
	r.bridge.stop()
}

// seen counts the events of a resource that a stream of the broker has.
func (r *reloaded) seen(name, resource string) (n int) {
	r.t.Helper()
	stream, err := r.js.Stream(r.t.Context(), name)
	if err != nil {
		return 0
	}
	info := must.Get(stream.Info(r.t.Context(), jetstream.WithSubjectFilter(">")))(r.t)
	for subject, count := range info.State.Subjects {
		if strings.Contains(subject, ".core."+resource+".") && !strings.HasSuffix(subject, "._snapshot") &&
			!strings.HasSuffix(subject, "._gap") {
			n += int(count)
		}
	}
	return n
}

func TestReload_changes_nothing_where_the_file_is_wrong_and_says_why(t *testing.T) {
	t.Parallel()
	r := newReloaded(t)
	good := r.head + r.pipeline("a", "KUBERNETES", "[{resource: configmaps, namespaces: [busy]}]")
	r.mount.write(t, good)
	r.runReady()
	b := r.keepBusy()
	for _, c := range []struct{ text, want string }{
		{strings.Replace(good, "resources:", "resource:", 1), "bridge.yaml:7:5: pipelines[0].resource: is not a key here"},
		{
			strings.Replace(good, "cluster: e2e", "cluster: other", 1),
			"bridge.yaml:1:10: cluster: cannot change while the process runs; restart the process",
		},
		{strings.Replace(good, "server: {listen: ", "server: {listen: \":1\"} # ", 1), "server.listen: cannot change"},
		{strings.Replace(good, "pipelines:", "leaderElection: {}\npipelines:", 1), "leaderElection"},
		{
			strings.Replace(good, "configmaps", "nodes", 1),
			"bridge.yaml:7:35: pipelines[0].resources[0].namespaces: resource nodes is cluster-scoped",
		},
		{
			strings.Replace(good, "[{resource: configmaps, namespaces: [busy]}]",
				"[{resource: networkpolicies}, {resource: networkpolicy}]", 1),
			"resources[1].resource: networkpolicy and networkpolicies before it are one resource",
		},
		{strings.Replace(good, "nats: {", "nats: {tokenFile: nothing, ", 1), "nothing: no such file or directory"},
		{good[:len(good)/2], "bridge.yaml:"},
	} {
		before := r.seen("KUBERNETES", "configmaps")
		r.load("refused", c.text)
		r.awaitStatus(200, "ok\nconfiguration refused")
		r.poll("its log to say "+c.want, func() (bool, string) { // a moment after the metric is counted
			said := r.bridge.stderr()
			return strings.Contains(said, strings.ReplaceAll(c.want, `"`, `\"`)), said
		})
		r.awaitMetric("config_last_reload_successful 0")
		r.poll("ConfigMaps that change", func() (bool, string) {
			return r.seen("KUBERNETES", "configmaps") > before+5,
				"there are not enough"
		})
	}
	assert.Equal(t, 0, r.count("applied"), "applied")
	r.load("unchanged", good)
	_, page := r.status("/readyz")
	assert.Equal(t, "ok\n", page, "readyz still")
	r.awaitMetric("config_last_reload_successful 1")
	before := r.count("unchanged")
	r.bridge.signal(syscall.SIGHUP)
	r.poll("an answer to the signal", func() (bool, string) { return r.count("unchanged") > before, "there is none" })
	b.judge("a", false, "configmaps")
	r.bridge.stop()
}

// A sink that changes drains the one pipeline, and starts another; the others go on.
func TestReload_moves_a_pipeline_to_another_sink(t *testing.T) {
	t.Parallel()
	r := newReloaded(t)
	of := func(stream string) string {
		return r.head + r.pipeline("a", "KUBERNETES", "[{resource: configmaps, namespaces: [busy]}]") +
			r.pipeline("b", stream, "[{resource: secrets, namespaces: [busy]}]")
	}
	r.mount.write(t, of("B"))
	r.runReady()
	b := r.keepBusy()
	watches := r.watched()
	r.poll("Secrets", func() (bool, string) { return r.seen("B", "secrets") > 20, "there are not enough" })
	r.load("applied", of("C"))
	r.awaitStatus(200, "ok")
	now := r.watched()
	assert.Equal(t, watches, now, "the API server has ended %d watches of ConfigMaps more", now)
	r.poll("Secrets in the other stream", func() (bool, string) {
		return r.seen("C", "secrets") > 20,
			"there are not enough"
	})
	b.judge("a", false, "configmaps")
	r.bridge.stop()
}

// Whenever it is killed, also in the midst of going by another file, nothing is lost, repeated or misordered.
func TestReload_killed_in_the_midst_loses_repeats_and_misorders_nothing(t *testing.T) {
	rig.Parallel(t, rig.All)
	killedInTheMidst(t, 12, 800)
}

func TestReload_killed_many_times_loses_repeats_and_misorders_nothing(t *testing.T) {
	rig.Parallel(t, rig.Nightly)
	killedInTheMidst(t, 25, 1500)
}

// killedInTheMidst loads files, some milliseconds from each other, and kills the bridge after each third one.
func killedInTheMidst(t *testing.T, rounds, longest int) {
	t.Helper()
	r := newReloaded(t)
	files := []string{
		"[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]",
		"[{resource: configmaps, namespaces: [busy]}]",
		"[{resource: secrets, namespaces: [busy]}]",
		"[{resource: configmaps, namespaces: [busy], payload: metadata}, {resource: secrets, namespaces: [busy]}]",
		`[{resource: "*", namespaces: [busy], exclude: [events, events.events.k8s.io]}, {resource: configmaps, namespaces: [busy]}]`,
	}
	text := func(i int) string { return r.head + r.pipeline("a", "KUBERNETES", files[i]) }
	r.mount.write(t, text(0))
	bridge := r.runReady()
	b := r.keepBusy()
	b.others = true
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // nothing is to be kept secret
	for round := range rounds {
		r.mount.write(t, text(random.IntN(len(files))))
		bridge.signal(syscall.SIGHUP)
		_ = pause.For(t.Context(), time.Duration(random.IntN(longest))*time.Millisecond)
		if round%3 == 0 {
			bridge.kill()
			bridge = r.run()
			r.awaitStatus(200, "")
		}
	}
	r.mount.write(t, text(0))
	bridge.signal(syscall.SIGHUP)
	b.selected = true
	b.judge("a", true, "configmaps", "secrets")
	bridge.stop()
}
