// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// filler begins the names of objects that are changed so that Kafka has reason to clean: what was written last is never
// cleaned.
const filler = "filler-"

// compacted checks what Kafka's own cleaner leaves: of each object that lives its newest event, of what is gone
// nothing, and in each partition the latest marker of each kind.
func (p *published) compacted(t *testing.T) {
	r := p.in(t)
	r.change()
	r.bridge.Stops()
	r.run() // a second process, so a second marker that one started
	polls := 0
	rig.Try(t, "Kafka to leave what lives, and nothing else", func() error {
		polls++
		r.fill()
		left, err := r.records(topicCompacted)
		if err != nil {
			return err
		}
		return r.onlyLive(left)
	})
	t.Logf("compacted after %d rounds", polls)
}

// in returns the rig for a subtest.
func (r *world) in(t *testing.T) *world {
	c := *r
	c.t = t
	return &c
}

// change makes objects, changes all of them and deletes some.
func (r *world) change() {
	r.t.Helper()
	for i := range 12 {
		name := fmt.Sprintf("object-%d", i)
		r.create(apart, plain(name, hard))
		for n := range 3 {
			r.patch(apart, name, "value", fmt.Sprintf("change %d", n))
		}
		if i%3 == 0 {
			r.remove(apart, name)
		}
	}
	for i := range 8 {
		r.create(apart, plain(fmt.Sprintf("%s%d", filler, i), ""))
	}
}

// fill writes to every partition.
func (r *world) fill() {
	r.t.Helper()
	for i := range 8 {
		name := fmt.Sprintf("%s%d", filler, i)
		c := must.Get(r.kube.CoreV1().ConfigMaps(apart).Get(r.t.Context(), name, metav1.GetOptions{}))(r.t)
		r.patch(apart, name, "value", "after "+c.ResourceVersion)
	}
}

// onlyLive says what is left and should not be, or is missing. Fillers are not looked at.
func (r *world) onlyLive(left []rig.Message) error {
	r.t.Helper()
	has, want := map[string][]string{}, map[string][]string{}
	for i := range left {
		rec := &left[i]
		e, err := ofRecord(rec)
		if err != nil {
			return err
		}
		state := e.attributes["objectuid"] + " at " + e.attributes["resourceversion"]
		key, what := e.group(), either(e.gone != "", "a null record", state)
		if e.marker() {
			key, what = fmt.Sprintf("%s in partition %d", key, rec.Partition), mark(e)
		}
		if !strings.Contains(key, "/"+filler) {
			has[key] = append(has[key], what)
		}
	}
	for partition := range 2 {
		writer := fmt.Sprintf("%s/_/_/_/_writer.%s in partition %d", cluster, topicCompacted, partition)
		want[writer] = []string{"started, producer epoch 1"}
		want[fmt.Sprintf("%s/core/configmaps/_/_snapshot in partition %d", cluster,
			partition)] = []string{"snapshot-completed"}
	}
	list := must.Get(r.kube.CoreV1().ConfigMaps(apart).List(r.t.Context(), metav1.ListOptions{}))(r.t)
	for _, c := range list.Items {
		if !strings.HasPrefix(c.Name, filler) {
			want[cluster+"/core/configmaps/"+apart+"/"+c.Name] = []string{string(c.UID) + " at " + c.ResourceVersion}
		}
	}
	if !maps.EqualFunc(has, want, slices.Equal) {
		return fmt.Errorf("there is %v\nwant %v", has, want)
	}
	return nil
}

// mark tells markers of one key apart; of the start of a process it says which one.
func mark(e *event) string {
	data, _ := e.data.(map[string]any)
	if epoch, ok := data["producerEpoch"]; ok {
		return fmt.Sprintf("%s, producer epoch %v", e.op(), epoch)
	}
	return e.op()
}

func either(is bool, a, b string) string {
	if is {
		return a
	}
	return b
}
