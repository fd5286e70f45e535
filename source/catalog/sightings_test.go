// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// says makes an answer of words: "group/version:plural,plural" is what a version of a group has, "group/version!" one
// that failed.
func says(text string) *answer {
	a := &answer{failed: map[schema.GroupVersion]error{}}
	groups := map[string]*metav1.APIGroup{}
	for word := range strings.FieldsSeq(text) {
		name, plurals, _ := strings.Cut(word, ":")
		failed := strings.HasSuffix(name, "!")
		gv, _ := schema.ParseGroupVersion(strings.TrimSuffix(name, "!"))
		if failed {
			a.failed[gv] = errors.New("away")
			continue
		}
		g := groups[gv.Group]
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if g == nil {
			g = &metav1.APIGroup{Name: gv.Group, PreferredVersion: v}
			groups[gv.Group] = g
			a.groups = append(a.groups, g)
		}
		g.Versions = append(g.Versions, v)
		list := &metav1.APIResourceList{GroupVersion: gv.String()}
		for plural := range strings.SplitSeq(plurals, ",") {
			verbs := []string{"get", "list", "watch"}
			if unread, ok := strings.CutPrefix(plural, "-"); ok {
				plural, verbs = unread, []string{"create", "list"}
			}
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: plural, Kind: strings.ToUpper(plural),
				Verbs: verbs,
			})
		}
		a.lists = append(a.lists, list)
	}
	return a
}

func (o *Offers) text() string {
	var words []string
	for _, s := range o.All() {
		word := s.Resource + "." + s.Group
		for _, r := range s.Versions {
			word += "/" + r.Version
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestOffers_are_what_can_be_read_and_keep_what_fails(t *testing.T) {
	before := says("v1:pods x.io/v1:as,bs x.io/v1beta1:as metrics/v1:ms").offers(nil)
	for _, c := range []struct{ answer, want string }{
		{"v1:pods,pods/log,-bindings", "pods./v1"},
		{"x.io/v2:as x.io/v1:as,bs", "as.x.io/v2/v1 bs.x.io/v1"},
		{"v1:pods x.io/v1!", "pods./v1 as.x.io/v1 bs.x.io/v1"},
		{"x.io/v1beta1:as x.io/v1!", "as.x.io/v1beta1/v1 bs.x.io/v1"},
		{"v1:pods metrics/v1! new/v1!", "pods./v1 ms.metrics/v1"},
	} {
		want := strings.Fields(c.want)
		got := strings.Fields(says(c.answer).offers(before).text())
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", c.answer, got, want)
			continue
		}
		for _, w := range want {
			assert.Contains(t, " "+strings.Join(got, " ")+" ", " "+w+" ", "%s: got %v, want %v", c.answer, got, want)
		}
	}
}

func TestOffers_name_the_versions_that_have_not_said_what_they_have(t *testing.T) {
	first := says("v1:pods x.io/v1:as y.io/v1! y.io/v2!").offers(nil)
	assert.Equal(t, []schema.GroupVersion{{Group: "y.io", Version: "v1"}, {Group: "y.io", Version: "v2"}}, first.Unknown())
	second := says("v1:pods x.io/v1! y.io/v1! y.io/v2:bs").offers(first)
	assert.Equal(t, []schema.GroupVersion{{Group: "y.io", Version: "v1"}}, second.Unknown(), "what x.io had is known")
	assert.Empty(t, says("v1:pods y.io/v1:bs x.io/v1!").offers(second).Unknown())

	metrics := says("v1:pods metrics/v1:-nodes").offers(nil)
	for range 2 {
		metrics = says("v1:pods metrics/v1!").offers(metrics)
		assert.Empty(t, metrics.Unknown(), "it had nothing to watch")
	}
}

// A time begins again whenever it is not certain that the answers before and after are of an API server that would have
// shown the resource.
func TestSightings_count_only_answers_without_a_break(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string // a second apart; "" is none
		want    int      // seconds for which as.x.io is absent
	}{
		"it was never there": {[]string{"v1:pods", "v1:pods", "v1:pods"}, 2},
		"it went":            {[]string{"x.io/v1:as", "v1:pods", "v1:pods", "v1:pods"}, 2},
		"it went, came and went": {
			[]string{"v1:pods", "x.io/v1:as", "v1:pods", "x.io/v1:as", "v1:pods"},
			0,
		},
		"an API server starts": {
			[]string{"x.io/v1:as", "v1:pods", "v1:pods", "", "v1:pods", "v1:pods"},
			1,
		},
		"its group fails, and then lacks it":         {[]string{"v1:pods", "x.io/v1!", "v1:pods", "v1:pods"}, 1},
		"its group fails":                            {[]string{"v1:pods", "v1:pods", "x.io/v1!"}, 0},
		"another group fails":                        {[]string{"v1:pods", "y.io/v1! v1:pods", "v1:pods"}, 2},
		"another version of it is all that is there": {[]string{"x.io/v1:bs", "x.io/v1:bs"}, 1},
		"there is no answer now":                     {[]string{"v1:pods", "v1:pods", ""}, 0},
	} {
		var s sightings
		var before *Offers
		start := time.Now()
		for i, text := range c.answers {
			if text == "" {
				s.failed()
				continue
			}
			a := says(text)
			has := a.offers(before)
			s.answered(start.Add(time.Duration(i)*time.Second), a.failed, before, has)
			before = has
		}
		assert.Equal(t, time.Duration(c.want)*time.Second,
			s.absent(schema.GroupResource{Group: "x.io", Resource: "as"}), "%s: absent, want %ds", name, c.want)
	}
}

func TestParseName_is_the_inverse_of_Name(t *testing.T) {
	for _, s := range []source.Stream{
		{Resource: source.Resource{Version: "v1", Resource: "pods"}},
		{Resource: source.Resource{Version: "v1", Resource: "pods", Namespaced: true}, Namespace: "kube-system"},
		{Resource: source.Resource{Group: "a.example.com", Version: "v1beta1", Resource: "widgets"}},
	} {
		got, ok := source.ParseName(s.Name())
		assert.True(t, ok && got == s, "%s: got %+v, %v", s.Name(), got, ok)
	}
	for _, bad := range []string{"", "pods", "pods.", "pods.v1."} {
		if got, ok := source.ParseName(bad); ok && got.Version != "" && got.Resource.Resource != "" && got.Name() != bad {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
	assert.False(t, must.OK(source.ParseName("pods")), "a name without a version is taken")
}
