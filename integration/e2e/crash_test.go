// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// watched is what the changes are made of.
const watched = `[{resource: configmaps, namespaces: [default]}]`

// seed decides what happens at random: it is fixed in CI and fresh at night.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if os.Getenv("KUBE_EVENTBRIDGE_TIER") == "nightly" {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // it is not negative
	}
	t.Logf("seed %d", seed)
	return seed
}

// driver changes ConfigMaps of the namespace default, and counts the changes.
type driver struct {
	kube    *kubernetes.Clientset
	seed    uint64
	changes atomic.Int64
	failed  atomic.Pointer[error] // of one that makes changes
}

// workers is how many make changes at a time, each to objects of its own.
const workers = 4

// start makes n changes, and returns what waits for their end.
func (d *driver) start(ctx context.Context, n int) *errgroup.Group {
	all, ctx := errgroup.WithContext(ctx)
	seed := d.seed
	d.seed++ // the next changes are others
	for w := range workers {
		all.Go(func() error {
			err := d.drive(ctx, w, n/workers, seed)
			if err != nil {
				d.failed.Store(&err)
			}
			return err
		})
	}
	return all
}

// drive changes the objects of one worker: mostly it updates, now and then it deletes, after which it uses the name
// again.
func (d *driver) drive(ctx context.Context, worker, n int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(worker))) //nolint:gosec // workers are few
	client := d.kube.CoreV1().ConfigMaps("default")
	alive := map[string]bool{}
	for i := range n {
		name := fmt.Sprintf("w%d-%d-%d", worker, seed, random.IntN(8))
		var err error
		switch {
		case !alive[name]:
			_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			alive[name] = true
		case random.IntN(12) == 0:
			err = client.Delete(ctx, name, metav1.DeleteOptions{})
			alive[name] = false
		default:
			patch := fmt.Appendf(nil, `{"data":{"i":%q}}`, strconv.Itoa(i))
			_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("change %d of %s: %w", i, name, err)
		}
		d.changes.Add(1)
	}
	return nil
}

// reaches waits until so many changes were made.
func (d *driver) reaches(t *testing.T, n int) {
	t.Helper()
	rig.Poll(t, fmt.Sprint(n, " changes"), func() (bool, string) {
		if failed := d.failed.Load(); failed != nil {
			t.Fatal(*failed)
		}
		made := int(d.changes.Load())
		return made >= n, fmt.Sprintf("there are %d", made)
	})
}

// recorded is a fixture whose ConfigMaps are recorded: the oracle judges its log.
type recorded struct {
	*fixture
	truth *rig.Truth
	*driver
}

func (r *fixture) record() *recorded {
	r.t.Helper()
	truth := rig.Record(r.t, r.api, r.cluster, corev1.SchemeGroupVersion.WithResource("configmaps"))
	return &recorded{r, truth, &driver{kube: r.kube, seed: seed(r.t)}}
}

// settle waits until everything that has happened is in the log: an object that is made last is there, and nothing
// waits.
func (r *fixture) settle(namespace string) {
	r.t.Helper()
	name := fmt.Sprint("last-", time.Now().UnixNano())
	r.configMap(namespace, name, nil)
	r.await("the last object", func(log []entry) bool { return story(log, namespace+"/"+name) == "added" })
	r.awaitSettled()
}

// awaitSettled waits until the log has all that was read: an object's event may overtake those of others.
func (r *fixture) awaitSettled() {
	r.t.Helper()
	r.poll("nothing to wait", func() (bool, string) {
		waits, found := r.bridge.Metric("oldest_unsettled_seconds")
		return found && waits == 0, fmt.Sprintf("something waits for %v s", waits)
	})
}

// judge compares the log with what happened. Whatever the bridge was disturbed by, the API server had all that it
// missed: so nothing is hidden by a gap.
func (r *recorded) judge() []entry {
	r.t.Helper()
	o := oracle.Options{Pipeline: "test", Seed: r.seed, Elected: r.elected}
	if r.kafka != nil {
		o.Partitions = partitions
	}
	report := r.truth.Judge(r.messages(), o, rig.CoreStream(r.cluster, "configmaps", "default"))
	assert.Equal(r.t, report.States, report.Published, "states in the log")
	return r.entries()
}

// disturbed makes changes, disturbs the bridge at random times meanwhile, and judges the log.
func disturbed(f *fixture, changes, times int, disturb func(*fixture)) {
	t := f.t
	t.Helper()
	r := f.record()
	r.run()
	r.awaitOp("snapshot-completed", 1)
	driving := r.driver.start(t.Context(), changes)
	random := rand.New(rand.NewPCG(r.seed, 99))
	for k := range times {
		r.reaches(t, (k+1)*changes/(times+1)+random.IntN(changes/(2*times)))
		disturb(f)
	}
	require.NoError(t, driving.Wait())
	r.settle("default")
	r.bridge.stop()
	r.judge()
}

// restarted kills the bridge and starts it again.
func restarted(r *fixture) {
	r.bridge.kill()
	r.run()
}

func TestCrash_killed_bridge_loses_repeats_and_misorders_nothing(t *testing.T) {
	t.Parallel()
	disturbed(newRig(t, watched), 1500, 4, restarted)
}

func TestCrash_killed_bridge_on_Kafka_loses_repeats_and_misorders_nothing(t *testing.T) {
	t.Parallel()
	disturbed(newKafkaRig(t, watched), 1500, 4, restarted)
}

// The checkpoint is in the bucket of a broker that restarts as well; nothing is on the disk.
func TestCrash_of_bridge_and_broker_loses_repeats_and_misorders_nothing(t *testing.T) {
	rig.Parallel(t, rig.All)
	crashBoth(newBucketRig(t), 1500, 6)
}

func crashBoth(r *fixture, changes, times int) {
	n := 0
	disturbed(r, changes, times, func(r *fixture) {
		if n++; n%2 == 0 {
			restarted(r)
			return
		}
		r.broker.stop()
		r.broker.start()
	})
	r.mustKeepNothing()
}

// The large numbers. The campaign of faults has more kinds of crashes.
func TestCrash_many_lose_repeat_and_misorder_nothing(t *testing.T) {
	rig.Parallel(t, rig.Nightly)
	for name, run := range map[string]func(*testing.T){
		"killed":            func(t *testing.T) { disturbed(newRig(t, watched), 5000, 10, restarted) },
		"killed, on Kafka":  func(t *testing.T) { disturbed(newKafkaRig(t, watched), 5000, 10, restarted) },
		"with the broker's": func(t *testing.T) { crashBoth(newBucketRig(t), 5000, 10) },
		"brokers of Kafka": func(t *testing.T) {
			next := 0
			disturbed(newClusterRig(t, 3), 3000, 4, func(r *fixture) {
				require.NoError(r.t, r.kafka.cluster.Kill(next%3))
				require.NoError(r.t, r.kafka.cluster.Restart(r.t.Context(), next%3))
				next++
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// A process that was stopped, as by a machine that swaps or a virtual one that is moved, does not know of the one that
// has taken its place. It wakes with changes to publish; its first event or commit is refused, and it ends.
func TestCrash_bridge_that_wakes_after_another_has_come_ends(t *testing.T) {
	rig.Parallel(t, rig.All)
	for name, c := range map[string]struct {
		make    func(*testing.T) *fixture
		refused []string
	}{
		"on NATS": {newBucketRig, []string{"another kube-eventbridge uses checkpoint"}},
		"on Kafka": {
			func(t *testing.T) *fixture { return newKafkaRig(t, watched) },
			[]string{"another process publishes for pipeline test of cluster", "another kube-eventbridge uses checkpoint"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wakes(c.make(t), c.refused)
		})
	}
}

// A second process is started by mistake, with the same configuration and the same checkpoint. The one that publishes
// goes on. The other one says why it waits, and what to do, and publishes when the first one has ended.
func TestCrash_second_bridge_waits_for_the_end_of_the_first_one(t *testing.T) {
	rig.Parallel(t, rig.All)
	for name, begin := range map[string]func(*testing.T) *fixture{
		"on NATS":  newBucketRig,
		"on Kafka": func(t *testing.T) *fixture { return newKafkaRig(t, watched) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waits(begin(t))
		})
	}
}

func waits(f *fixture) {
	t := f.t
	t.Helper()
	r := f.record()
	first := r.run()
	r.awaitOp("snapshot-completed", 1)
	driving := r.driver.start(t.Context(), 1000)
	r.reaches(t, 250)
	r.listenElsewhere()
	second := r.run()
	r.awaitStatus(http.StatusServiceUnavailable, "another kube-eventbridge uses it (process")
	r.awaitStatus(http.StatusServiceUnavailable, "set leaderElection for both")
	require.NoError(t, driving.Wait())
	first.stop()
	assert.NotContains(t, first.stderr(), "another", "the first one is not disturbed")
	r.awaitStatus(http.StatusOK, "ok")
	require.NoError(t, r.driver.start(t.Context(), 100).Wait())
	r.settle("default")
	second.stop()
	r.judge()
}

func wakes(f *fixture, refused []string) {
	t := f.t
	t.Helper()
	r := f.record()
	first := r.run()
	r.awaitOp("snapshot-completed", 1)
	driving := r.driver.start(t.Context(), 2000)
	r.reaches(t, 500)
	first.signal(syscall.SIGSTOP)
	r.listenElsewhere()
	second := r.run()
	r.reaches(t, 1000)
	r.awaitStatus(200, "ok")
	first.signal(syscall.SIGCONT)
	require.NoError(t, driving.Wait())
	first.exit(1)
	said := first.stderr()
	told := 0
	for _, text := range refused {
		told += strings.Count(said, text)
	}
	assert.NotEqual(t, 0, told, "the first one does not say why it ended:\n%s", said)
	r.settle("default")
	second.stop()
	n := strings.Count(second.stderr(), `"msg":"publishing","pipeline":"test"`)
	assert.Equal(t, 1, n, "the second one says %d times that it publishes:\n%s", n, second.stderr())
	r.judge()
}
