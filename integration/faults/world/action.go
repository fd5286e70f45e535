// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/selection"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// actionFaults are what users do. What they change in the file they change back: in the end the bridge reads what it
// read before.
func actionFaults() []Fault {
	var all []Fault
	for _, a := range []struct {
		name     string
		from, to change
	}{
		{"namespaces narrowed and widened", nil, narrowed},
		{"namespaces widened and narrowed", nil, widened},
		{"selectors dropped, namespaces widened, and both taken back", nil, merged},
		{"a selector dropped and given back", nil, withSelector("")},
		{"a selector turned round and back", nil, withSelector(drive.Label + "=no")},
		{"an entry removed and added", nil, with(drive.ClusterRoles)},
		{"an entry of namespaces removed and added", nil, with(drive.Secrets)},
		{"an entry added and removed", nil, with(drive.Namespaces, selection.Entry{Kind: drive.Namespaces})},
		{"an entry renamed and named as before", nil, widgets(bare, drive.Widgets)},
		// What names no version goes on in the one that was read.
		{
			"an entry pinned to another version and back",
			widgets(pinned("v1"), drive.Widgets), widgets(pinned("v1beta1"), drive.OldWidgets),
		},
		{"an entry given to a wildcard and back", nil, widgets("*."+group, drive.Widgets)},
		{"the file written again, with the same content", nil, nil},
	} {
		all = append(all, Fault{
			Name: a.name, Parts: Process, Weight: 3, Cost: 20 * time.Second, Action: true, run: reselect(a.from, a.to),
		})
	}
	return append(all,
		Fault{
			Name: "a Namespace's label removed and restored", Parts: Process | API, Weight: 3, Cost: 30 * time.Second,
			Action: true, run: relabelNamespace,
		},
		Fault{
			Name: "a second CRD with the same plural", Parts: Process | API, Weight: 3, Cost: 40 * time.Second,
			Action: true, CRD: true, run: addTwin,
		},
		Fault{Name: "a resync asked for", Parts: Process, Weight: 3, Cost: 10 * time.Second, Resyncs: true, run: resync},
		Fault{
			Name: "the checkpoint lost", Parts: Process | Broker | Disk, Weight: 3, Cost: 10 * time.Second,
			Loses: CheckpointLost, Resyncs: true, run: loseCheckpoint,
		},
	)
}

// change makes another selection of one.
type change func(selection.Selection) selection.Selection

func narrowed(s selection.Selection) selection.Selection {
	e := s.Of(drive.Secrets)[0]
	e.Namespaces = e.Namespaces[1:]
	return s.With(drive.Secrets, e)
}

func widened(s selection.Selection) selection.Selection {
	e := s.Of(drive.Secrets)[0]
	e.Namespaces = nil
	return s.With(drive.Secrets, e)
}

func merged(s selection.Selection) selection.Selection {
	return s.With(drive.ConfigMaps, selection.Entry{Kind: drive.ConfigMaps})
}

// withSelector gives another selector to the entry that has one.
func withSelector(text string) change {
	return func(s selection.Selection) selection.Selection {
		entries := s.Of(drive.ConfigMaps)
		for n := range entries {
			if entries[n].LabelSelector != "" {
				entries[n].LabelSelector = text
			}
		}
		return s.With(drive.ConfigMaps, entries...)
	}
}

func with(k drive.Kind, entries ...selection.Entry) change {
	return func(s selection.Selection) selection.Selection { return s.With(k, entries...) }
}

var group, bare = drive.Widgets.Resource.Group, drive.Widgets.Resource.Resource

// pinned is what an entry calls widgets of a version.
func pinned(version string) string { return bare + "." + version + "." + group }

// widgets reads widgets, which are what the kind says, under a name.
func widgets(name string, k drive.Kind) change {
	return with(drive.Widgets, selection.Entry{Name: name, Kind: k})
}

// of returns the selection that a change makes of another one; nil changes nothing.
func (c change) of(s selection.Selection) selection.Selection {
	if c == nil {
		return s
	}
	return c(s)
}

// reselect has the bridge read something else, and then the same as before: once it goes by that, and once at once,
// while the broker still knows the ids of what it was told. From is a change that has to be made before.
func reselect(from, to change) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		base := i.cfg.Selection
		first := from.of(base)
		other := to.of(first)
		if from != nil {
			try.Do(i.apply(ctx, base, first))
			try.Do(i.awaitSelected(ctx, first))
		}
		try.Do(i.apply(ctx, first, other))
		try.Do(i.awaitSelected(ctx, other))
		try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
		try.Do(i.apply(ctx, other, first))
		try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
		try.Do(i.apply(ctx, first, other))
		try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
		try.Do(i.write(ctx, first))
		try.Do(i.awaitSelected(ctx, first))
		if from == nil {
			return nil
		}
		try.Do(i.apply(ctx, first, base))
		return i.awaitSelected(ctx, base)
	}
}

// selects says what the file may select from now on.
func (i *injection) selects(ctx context.Context, may ...selection.Selection) error {
	if i.cfg.Selects == nil {
		return nil
	}
	return i.cfg.Selects(ctx, may...)
}

// apply has the file select something else than before.
func (i *injection) apply(ctx context.Context, before, now selection.Selection) error {
	if err := i.selects(ctx, before, now); err != nil {
		return err
	}
	return i.write(ctx, now)
}

// write writes the file, and has the bridge read it: by itself, by a signal, by a restart, or by a signal and a kill
// right behind it.
func (i *injection) write(ctx context.Context, now selection.Selection) error {
	i.mu.Lock()
	i.resources = now.YAML()
	i.written++
	i.mu.Unlock()
	for _, r := range i.replicas {
		if err := i.writeFile(r); err != nil {
			return err
		}
	}
	ways := []struct {
		name string
		do   func(context.Context) error
	}{
		{"it is found by itself", func(context.Context) error { return nil }},
		{"SIGHUP", i.hangUp},
		{"restart", i.restart},
		{"SIGHUP and a kill", func(ctx context.Context) error {
			if err := i.hangUp(ctx); err != nil {
				return err
			}
			return errors.Join(pause.For(ctx, i.between(0, time.Second)), i.restartBridge())
		}},
	}
	way := ways[i.random.IntN(len(ways))]
	i.note(ctx, "the file has, by %s: %s", way.name, now.YAML())
	return way.do(ctx)
}

// hangUp sends SIGHUP to each process, which has to heed it.
func (i *injection) hangUp(ctx context.Context) error {
	for _, b := range i.processes() {
		if err := b.awaitServing(ctx); err != nil {
			return err
		}
		if err := b.Signal(syscall.SIGHUP); err != nil {
			return fmt.Errorf("%w: %w; %s", ErrEnded, err, b.lastWords())
		}
	}
	return nil
}

// restart stops the bridge as an operator does, or kills it where it may wait for something else that is broken.
func (i *injection) restart(ctx context.Context) error {
	if i.fault.joined {
		return i.restartBridge()
	}
	stopping, cancel := context.WithTimeout(ctx, stopping)
	defer cancel()
	return errors.Join(i.StopBridge(stopping), i.StartBridge())
}

// applying is for how long a bridge may not go by its file, also where something else is broken for a while.
const applying = 2 * time.Minute

// awaitSelected waits until the bridge goes by its file and reads all of a selection and nothing else.
func (i *injection) awaitSelected(ctx context.Context, s selection.Selection) error {
	i.mu.Lock()
	since := i.wrote
	i.mu.Unlock()
	// What is loaded after the second of two moments was read after the first.
	loads := func(b *Bridge) string { return b.loaded(ctx, since) }
	if err := i.awaitApplied(ctx, "the bridge to load its file", loads); err != nil {
		return err
	}
	since = time.Now()
	if err := i.hangUp(ctx); err != nil {
		return err
	}
	if err := i.awaitApplied(ctx, "the bridge to load its file again", loads); err != nil {
		return err
	}
	// A stream that is about to end its objects is not shown for a moment.
	var steady time.Time
	err := i.awaitApplied(ctx, "the bridge to read what its file says", func(b *Bridge) string {
		missing := "no replica leads"
		if i.follow(ctx) {
			if b != i.Bridge() {
				return ""
			}
			missing = b.reads(ctx, s.Names())
		}
		switch {
		case missing != "":
			steady = time.Time{}
		case steady.IsZero():
			steady = time.Now()
			fallthrough
		case time.Since(steady) < quiet:
			missing = "it has read that for a moment only"
		}
		return missing
	})
	if err != nil {
		return err
	}
	return i.selects(ctx, s)
}

// awaitApplied waits until nothing is missing at any process.
func (i *injection) awaitApplied(ctx context.Context, what string, missing func(*Bridge) string) error {
	var last string
	err := poll(ctx, applying, what, func() bool {
		for _, b := range i.processes() {
			if last = missing(b); last != "" {
				return false
			}
		}
		return true
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w: %s; %s", ErrUnsettled, err, last, i.Bridge().lastWords())
	}
	return err
}

// loaded says what is missing until a process goes by a file that it has loaded since.
func (b *Bridge) loaded(ctx context.Context, since time.Time) string {
	m, err := b.Metrics(ctx)
	if err != nil {
		return err.Error()
	}
	at, _ := m.Sum("config_last_reload_success_timestamp_seconds")
	if before := time.UnixMilli(int64(at * 1000)); before.Before(since.Truncate(time.Millisecond)) {
		return fmt.Sprintf("it was last loaded at %s, before %s", before, since)
	}
	return ""
}

// reads says what is missing until a process reads streams of these names, and no others.
func (b *Bridge) reads(ctx context.Context, names []string) string {
	m, err := b.Metrics(ctx)
	if err != nil {
		return err.Error()
	}
	var watched []string
	for series, is := range m {
		rest, found := strings.CutPrefix(series, `kube_eventbridge_stream_watching{pipeline="`+Pipeline+`",stream="`)
		if found && is == 1 {
			watched = append(watched, strings.TrimSuffix(rest, `"}`))
		}
	}
	slices.Sort(watched)
	if _, all := m.Sum("stream_watching"); all != len(names) || !slices.Equal(watched, names) {
		return fmt.Sprintf("of %d streams it watches %v, and not %v", all, watched, names)
	}
	if ready, said := b.Ready(ctx); !ready {
		return "it is not ready: " + strings.TrimSpace(said)
	}
	return ""
}

// namespaceLabel selects the namespaces that are read while [relabelNamespace] is under way.
const namespaceLabel = "faults.example.com/read"

// relabelNamespace reads Secrets of namespaces by their label, takes that away from one, and gives it back.
func relabelNamespace(ctx context.Context, i *injection) error {
	base := i.cfg.Selection
	by, none := base.Of(drive.Secrets)[0], base.Of(drive.Secrets)[0]
	by.NamespaceSelector = namespaceLabel + "=yes"
	name := by.Namespaces[0]
	none.NamespaceSelector, none.Namespaces = by.NamespaceSelector, by.Namespaces[1:]
	all, fewer := base.With(drive.Secrets, by), base.With(drive.Secrets, none)
	for _, n := range by.Namespaces {
		try.Do(i.labelNamespace(ctx, n, `"yes"`))
	}
	try.Do(i.apply(ctx, base, all))
	try.Do(i.awaitSelected(ctx, all))
	try.Do(i.selects(ctx, all, fewer))
	try.Do(i.labelNamespace(ctx, name, "null"))
	try.Do(i.awaitSelected(ctx, fewer))
	try.Do(pause.For(ctx, i.between(0, time.Second)))
	try.Do(i.selects(ctx, fewer, all))
	for _, value := range []string{`"yes"`, "null", `"yes"`} {
		try.Do(i.labelNamespace(ctx, name, value))
		try.Do(pause.For(ctx, i.between(0, time.Second)))
	}
	try.Do(i.write(ctx, base))
	return i.awaitSelected(ctx, base)
}

func (i *injection) labelNamespace(ctx context.Context, name, value string) error {
	k, err := kubernetes.NewForConfig(i.RESTConfig())
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, namespaceLabel, value)
	if _, err = k.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label namespace %s: %w", name, err)
	}
	i.note(ctx, "namespace %s has the label %s", name, value)
	return nil
}

// twin is a resource with the plural of widgets.
var twin = schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: bare}

// addTwin calls the custom resource by its plural alone, and then installs another one with that plural in a group that
// comes before. The bridge goes on with the first one.
func addTwin(ctx context.Context, i *injection) error {
	base := i.cfg.Selection
	short := widgets(bare, drive.Widgets)(base)
	try.Do(i.apply(ctx, base, short))
	try.Do(i.awaitSelected(ctx, short))
	definition := crd.Define(twin, drive.Widgets.Kind)
	try.Do(crd.Install(ctx, i.RESTConfig(), definition))
	made := i.makeTwin(ctx)
	i.note(ctx, "%s was installed", definition.Name)
	if made == nil {
		made = i.write(ctx, short) // it may be restarted
	}
	if made == nil {
		made = i.awaitSelected(ctx, short)
	}
	c := try.Get(i.definitions())
	try.Do(errors.Join(made, c.Delete(context.WithoutCancel(ctx), definition.Name, metav1.DeleteOptions{})))
	try.Do(i.apply(ctx, short, base))
	return i.awaitSelected(ctx, base)
}

// makeTwin makes an object of the second resource, of which the log must have nothing.
func (i *injection) makeTwin(ctx context.Context) error {
	client, err := dynamic.NewForConfig(i.RESTConfig())
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "twin"}}}
	o.SetGroupVersionKind(twin.GroupVersion().WithKind(drive.Widgets.Kind))
	if _, err = client.Resource(twin).Namespace("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make a twin: %w", err)
	}
	return nil
}

// resync has the bridge publish everything again.
func resync(ctx context.Context, i *injection) error {
	said, _, err := i.Resync(ctx)
	i.note(ctx, "a resync: %s", said)
	return err
}

// Resync has the bridge publish everything again, by the command, and returns what that says. It is complete if
// everything was.
func (w *World) Resync(ctx context.Context) (said string, complete bool, err error) {
	w.follow(ctx)
	bounded, cancel := context.WithTimeout(ctx, applying)
	defer cancel()
	b := w.Bridge()
	out, err := exec.CommandContext(bounded, w.binary, "resync", "--server", b.server).CombinedOutput()
	said = strings.ReplaceAll(string(out), "\n", "; ")
	if bounded.Err() != nil && ctx.Err() == nil {
		return said, false, fmt.Errorf("%w: a resync does not end: %s; %s", ErrUnsettled, said, b.lastWords())
	}
	return said, err == nil, nil
}

// loseCheckpoint takes the checkpoint away from a bridge that does not run.
func loseCheckpoint(ctx context.Context, i *injection) error {
	try.Do(i.KillBridge())
	try.Do(i.removeCheckpoint(ctx))
	i.lost(ctx, CheckpointLost, "the checkpoint was removed")
	try.Do(i.StartBridge())
	return i.awaitReady(ctx)
}
