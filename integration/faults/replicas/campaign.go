// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options say what a campaign does.
type Options struct {
	// Faults is how many are injected, PerRound how many of them in each round.
	Faults, PerRound int
	Seed             uint64
	// Limit, if not 0, is the limit of deletes in each round; otherwise some have one.
	Limit int
	// Replicators, if not 0, is how many there are in each round; otherwise one or two.
	Replicators int
	// Both says in which rounds the clusters replicate into each other: none, some or all.
	Both string
	// Interfere is how often people change the target.
	Interfere time.Duration
	// Once injects each fault once and alone, in place of those at random.
	Once bool
	// Only, if not nil, leaves out faults whose name does not match.
	Only *regexp.Regexp
	// Broker is nats or kafka.
	Broker string
	// Binary is the program. Replicator, if not empty, is another one that replicates in its place.
	Binary, Replicator string
	// Dir is where results go, and rounds with violations.
	Dir string
	// Log receives progress; Verbose is all that happens. Debug has the replicator log more.
	Log            io.Writer
	Verbose, Debug bool
}

func (o *Options) level() string {
	if o.Debug {
		return "debug"
	}
	return "info"
}

// Result is what came of a round.
type Result struct {
	Round  int    `json:"round"`
	Seed   uint64 `json:"seed"`
	Broker string `json:"broker"`
	Limit  int    `json:"limit,omitempty"`
	// Replicators is how many processes there were, of which one led, in each direction; Both says that there were two.
	Replicators int      `json:"replicators"`
	Both        bool     `json:"both,omitempty"`
	Faults      []string `json:"faults"`
	// Changes are those of the driver; the others are of the replicator, in the target.
	Changes, Creates, Updates, Deletes int
	// Backward counts writes of an older sequence over a newer one. Unknown is how many changes of the target have no
	// author in the audit log.
	Backward, Unknown int
	// Late objects waited for something that was gone.
	Late []string `json:",omitempty"`
	// Reached is how long new objects of the source took to the target after faults, in seconds.
	Reached []float64
	// Converged is how long the clusters took to be equal, in seconds.
	Converged float64
	Seconds   float64
	// Violations are counted by promise; Told says each.
	Violations map[string]int `json:",omitempty"`
	Told       []string       `json:",omitempty"`
	// Failed is why the round was not played to its end, for a reason that is not the replica's.
	Failed string   `json:",omitempty"`
	Story  []string `json:",omitempty"`
}

// printed is how many violations of a promise are told of a round.
const printed = 20

func (r *Result) violated(promise, format string, args ...any) {
	if r.Violations == nil {
		r.Violations = make(map[string]int)
	}
	if r.Violations[promise]++; r.Violations[promise] <= printed {
		r.Told = append(r.Told, promise+": "+fmt.Sprintf(format, args...))
	}
}

// Run plays rounds until all faults were injected. A campaign in the same directory goes on where it was.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	quietly()
	o.Interfere = cmp.Or(o.Interfere, 1200*time.Millisecond)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, "results.jsonl")
	if results, err = readResults(path, o.Seed); err != nil {
		return nil, err
	}
	done := 0
	for i := range results {
		done += len(results[i].Faults)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // each line is written by itself
	plan := o.planned()
	for total := max(o.Faults, 0) + len(plan); done < total && ctx.Err() == nil; {
		n := min(o.PerRound, total-done)
		var next []fault
		if done < len(plan) {
			next = plan[done:min(done+n, len(plan))]
			n = len(next)
		}
		res, err := o.round(ctx, len(results), n, next)
		if err != nil {
			res.Failed = err.Error()
		}
		if ctx.Err() != nil {
			break
		}
		line, err := json.Marshal(res)
		if err != nil {
			return results, err
		}
		if _, err := fmt.Fprintf(file, "%s\n", line); err != nil {
			return results, err
		}
		results = append(results, res)
		done += max(n, len(res.Faults))
		_, _ = fmt.Fprintf(o.Log, "%s\n", &res) // progress
	}
	return results, ctx.Err()
}

// planned returns the faults that are injected before those at random.
func (o *Options) planned() []fault {
	if !o.Once {
		return nil
	}
	return slices.DeleteFunc(faults(), func(f fault) bool { return o.Only != nil && !o.Only.MatchString(f.name) })
}

func readResults(path string, seed uint64) (all []Result, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.Seed != seed {
			return nil, fmt.Errorf("%s has results of seed %d", path, r.Seed)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// smallLimit is the limit of deletes in some rounds.
const smallLimit = 8

// round plays one round.
func (o *Options) round(ctx context.Context, number, n int, plan []fault) (res Result, err error) {
	began := time.Now()
	res = Result{Round: number, Seed: o.Seed, Broker: o.Broker, Limit: o.Limit, Replicators: o.Replicators}
	if o.Replicators == 0 {
		res.Replicators = 1 + number%2
	}
	random := newRandom(o.Seed, uint64(number)) //nolint:gosec // it is positive
	res.Both = o.Both == "all" || o.Both == "some" && number%3 == 2
	if number%4 == 3 && o.Limit == 0 && !res.Both {
		res.Limit = smallLimit
	}
	dir := filepath.Join(o.Dir, fmt.Sprintf("round-%d", number))
	if err := os.RemoveAll(dir); err != nil {
		return res, err
	}
	w, err := newWorld(ctx, o, dir, random, &res)
	if err != nil {
		return res, fmt.Errorf("round %d: %w", number, err)
	}
	played := w.play(ctx, n, plan, &res)
	res.Seconds = time.Since(began).Seconds()
	if len(res.Violations) > 0 {
		res.Story = w.story
	}
	err = errors.Join(played, w.close())
	if err != nil {
		return res, fmt.Errorf("round %d, see %s: %w", number, dir, err)
	}
	if len(res.Violations) == 0 {
		return res, os.RemoveAll(dir)
	}
	return res, nil
}

// play injects faults, waits until all is quiet, and judges.
func (w *world) play(ctx context.Context, n int, plan []fault, res *Result) error {
	driving, stop := context.WithCancel(ctx)
	defer stop()
	var busy sync.WaitGroup
	changes := make([]int, 2)
	for i, each := range w.directions() {
		busy.Go(func() { changes[i] = each.drive(driving, 80*time.Millisecond) })
		busy.Go(func() { each.interfere(driving, w.o.Interfere) })
	}
	if err := w.pause(ctx, 2, 4); err != nil {
		return err
	}
	for len(res.Faults) < n {
		next := w.choose(n-len(res.Faults), plan, len(res.Faults))
		if err := w.inject(ctx, next); err != nil {
			return err
		}
		for _, f := range next {
			res.Faults = append(res.Faults, f.name)
		}
		if !w.reachAll(ctx, len(res.Faults)) {
			break // what follows would tell the same again
		}
	}
	stop()
	busy.Wait()
	res.Changes = changes[0] + changes[1]
	w.note("all is quiet")
	for _, each := range w.directions() {
		if each.unknown.Load() {
			if err := each.resync(ctx); err != nil {
				return err
			}
		}
	}
	quiet := time.Now()
	wrong, late := w.converge(ctx, 60*time.Second)
	res.Converged, res.Late = time.Since(quiet).Seconds(), late
	for _, m := range wrong {
		m.in.violated("R1", "%s: %s; it waits: %q", m.key, m.what, m.waits)
	}
	if w.other != nil && len(wrong) == 0 {
		if err := w.stays(ctx); err != nil {
			return err
		}
	}
	for _, each := range w.directions() {
		if err := each.judgeWrites(ctx, res); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the faults that are injected next, together.
func (w *world) choose(most int, plan []fault, done int) []fault {
	if plan != nil {
		return plan[done : done+1]
	}
	first := w.chooseOne(everything)
	if most > 1 && w.random.n(4) == 0 && first.part != everything {
		if second := w.chooseOne(everything &^ first.part); second != nil {
			return []fault{*first, *second}
		}
	}
	return []fault{*first}
}

// chooseOne returns a fault of some parts.
func (w *world) chooseOne(of part) *fault {
	var all []fault
	for _, f := range faults() {
		if f.part&^of == 0 && (w.o.Only == nil || w.o.Only.MatchString(f.name)) {
			for range f.weight {
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	f := pick(w.random, all)
	return &f
}

// inject injects faults together.
func (w *world) inject(ctx context.Context, together []fault) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	var busy sync.WaitGroup
	errs, in := make([]error, len(together)), pick(w.random, w.directions())
	for i, f := range together {
		busy.Go(func() {
			in.note("fault: %s", f.name)
			if err := f.run(ctx, in); err != nil {
				errs[i] = fmt.Errorf("%s: %w", f.name, err)
			}
			in.note("end of fault: %s", f.name)
		})
	}
	busy.Wait()
	return errors.Join(errs...)
}

// reachAll reports whether reaches holds in all directions.
func (w *world) reachAll(ctx context.Context, n int) bool {
	return !slices.ContainsFunc(w.directions(), func(each *world) bool { return !each.reaches(ctx, n) })
}

// reaches reports whether a new object of the source reaches the target in time.
func (w *world) reaches(ctx context.Context, n int) bool {
	k := key{pick(w.random, resources), pick(w.random, w.sources()), fmt.Sprintf("probe-%s-%d", w.direction.source, n)}
	o := w.newObject(k)
	unstructured.RemoveNestedField(o.Object, "spec", "password") // with one it would wait
	o.SetOwnerReferences(nil)                                    // with one it would be left out
	o.SetFinalizers(nil)                                         // the driver does not come to remove them
	began := time.Now()
	for time.Since(began) < 30*time.Second {
		if _, err := w.from.Resource(k.resource).Namespace(k.namespace).Create(ctx, o, metav1.CreateOptions{}); err == nil {
			break
		}
		if w.pause(ctx, 0, 1) != nil {
			return false
		}
	}
	began = time.Now()
	err := poll(ctx, 30*time.Second, "", func() bool {
		_, err := w.targetOf(k).Get(ctx, k.name, metav1.GetOptions{})
		return err == nil
	})
	if err != nil && ctx.Err() == nil {
		s, asked := w.status(ctx)
		w.violated("hang", "%s does not reach the target within 30 seconds; status %+v, %v", k, s, asked)
	}
	main := w.main()
	main.mu.Lock()
	main.result.Reached = append(main.result.Reached, time.Since(began).Seconds())
	main.mu.Unlock()
	return err == nil
}

// String says in a line or more what came of a round.
func (r *Result) String() string {
	slowest := 0.0
	for _, s := range r.Reached {
		slowest = max(slowest, s)
	}
	text := fmt.Sprintf("round %d: %d faults in %.0f s, %d changes, %d created, %d updated, %d deleted, %d late, new "+
		"objects reach the target within %.1f s, equal after %.1f s, violations: %v", r.Round, len(r.Faults), r.Seconds,
		r.Changes, r.Creates, r.Updates, r.Deletes, len(r.Late), slowest, r.Converged, r.Violations)
	if r.Failed != "" {
		text += "\n  FAILED: " + r.Failed
	}
	for _, line := range r.Told {
		text += "\n  " + line
	}
	return text
}

// Summary is all rounds in Markdown.
func Summary(results []Result) string {
	var b strings.Builder
	failed := 0
	violations, byFault, sum, faults, late := map[string]int{}, map[string]int{}, Result{}, 0, 0
	for _, p := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7", "hang"} {
		violations[p] = 0
	}
	for i := range results {
		r := &results[i]
		faults += len(r.Faults)
		for _, f := range r.Faults {
			byFault[f]++
		}
		for p, n := range r.Violations {
			violations[p] += n
		}
		if r.Failed != "" {
			failed++
		}
		sum.Changes, sum.Seconds = sum.Changes+r.Changes, sum.Seconds+r.Seconds
		sum.Creates, sum.Updates, sum.Deletes = sum.Creates+r.Creates, sum.Updates+r.Updates, sum.Deletes+r.Deletes
		sum.Unknown, late = sum.Unknown+r.Unknown, late+len(r.Late)
	}
	fmt.Fprintf(&b, "%d faults in %d rounds, %.0f minutes; %d changes of the source; the replicator created %d objects, "+
		"updated %d and deleted %d. Of %d changes of the target the author is not known. %d objects were late. "+
		"%d rounds failed.\n\n", faults,
		len(results), sum.Seconds/60, sum.Changes, sum.Creates, sum.Updates, sum.Deletes, sum.Unknown, late, failed)
	fmt.Fprintf(&b, "| promise | violations |\n|---|---|\n")
	for _, p := range slices.Sorted(maps.Keys(violations)) {
		fmt.Fprintf(&b, "| %s | %d |\n", p, violations[p])
	}
	fmt.Fprintf(&b, "\n| fault | times |\n|---|---|\n")
	for _, f := range slices.Sorted(maps.Keys(byFault)) {
		fmt.Fprintf(&b, "| %s | %d |\n", f, byFault[f])
	}
	return b.String()
}
