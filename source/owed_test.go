// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
)

// What is read back stands ahead of what a watch from the position would show: that has to be known before the first of it is handed over.
func TestReader_says_that_it_reads_back_before_it_does(t *testing.T) {
	for name, c := range map[string]struct {
		known []Ident
		want  string
	}{
		"something":           {[]Ident{known("a", "u-a", 3)}, "[0 lines, then what precedes 40]"},
		"nothing has changed": {[]Ident{known("a", "u-a", 20)}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newCluster(t, 40, write{rev: 3, name: "a", uid: "u-a"}, write{rev: 10, name: "a", uid: "u-a"}, write{rev: 20, name: "a", uid: "u-a"})
				r := &recorder{resume: "5", known: c.known}
				must.Get(server.run(r, enough, until(r, "listed 40")))(t)
				assert.Equal(t, c.want, fmt.Sprint(r.recovering))
			})
		})
	}
}

// A list that is owed is made although the position can be watched: what a watch would show of the time before it is older than what was
// published.
func TestReader_makes_a_list_that_is_owed_before_it_watches(t *testing.T) {
	writes := []write{
		{rev: 3, name: "a", uid: "u-a"},
		{rev: 4, name: "b", uid: "u-b"},
		{rev: 8, name: "b", uid: "u-b"},
		{rev: 10, name: "a", uid: "u-a"},
		{rev: 12, name: "b", uid: "u-b"},
		{rev: 20, name: "a", uid: "u-a"},
		{rev: 30, name: "c", uid: "u-c"},
	}
	for name, c := range map[string]struct {
		owed Owed
		want []string
	}{
		"what can be read back is": {
			Owed{Version: "18", Cause: "expired"},
			[]string{"updated b@8 recovered", "gap 20", "added a@20 relist", "added b@12 relist", "listed 20", "added c@30 watch"},
		},
		"it is not older than it was to be": {
			Owed{Version: "25", Cause: "expired"},
			[]string{"updated b@8 recovered", "gap 25", "added a@20 relist", "added b@12 relist", "listed 25", "added c@30 watch"},
		},
		"nothing is read back behind a gap that was announced": {
			Owed{Version: "25", Cause: "expired", Announced: true},
			[]string{"gap 25", "added a@20 relist", "added b@12 relist", "listed 25", "added c@30 watch"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newCluster(t, 40, writes...)
				server.oldest = 1
				r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 20), known("b", "u-b", 4)}}
				reader := Reader{Client: server.script.client(), Stream: configMaps, Recovery: enough, Owed: c.owed}
				got := must.Get(runReader(t, reader, r, until(r, "added c@30 watch")))(t)
				check(t, got, c.want...)
			})
		})
	}
}
