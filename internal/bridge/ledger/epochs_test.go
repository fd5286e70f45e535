// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestBeginEpoch_tells_of_what_hides_most(t *testing.T) {
	restored := source.Why{Cause: source.CauseRestored, Message: "etcd"}
	lost := source.Why{Cause: source.CauseLogLost, Message: "log"}
	repair := checkpoint.Owes{List: sequence.Repair, From: "0", Cause: "log-lost", Message: "lost", Number: 7, Version: "9"}
	for name, c := range map[string]struct {
		owed     checkpoint.Owes
		position string
		why      source.Why
		want     checkpoint.Owes
	}{
		"a restoration": {
			checkpoint.Owes{},
			"5", restored,
			checkpoint.Owes{List: sequence.Republish, From: "5", Cause: "restored", Message: "etcd"},
		},
		"a restoration before a list that is owed": {
			checkpoint.Owes{List: sequence.Republish, From: "3", Cause: "rebuilt"},
			"", restored,
			checkpoint.Owes{List: sequence.Republish, From: "3", Cause: "restored", Message: "etcd"},
		},
		"a restoration before a lost log is repaired": {
			repair, "", restored,
			checkpoint.Owes{List: sequence.Repair, From: "0", Cause: "log-lost", Message: "lost"},
		},
		"a restoration while a lost log is repaired": {
			repair, "5", restored,
			checkpoint.Owes{List: sequence.Repair, From: "0", Cause: "log-lost", Message: "lost"},
		},
		"a log that is lost again": {
			repair, "3", lost,
			checkpoint.Owes{List: sequence.Repair, From: "3", Cause: "log-lost", Message: "log"},
		},
	} {
		saved := checkpoint.Stream{Epoch: 4, Owes: c.owed}
		BeginEpoch(&saved, 8, c.position, c.why)
		assert.Equal(t, c.want, saved.Owes, name)
		assert.EqualValues(t, 8, saved.Epoch, name)
		assert.EqualValues(t, 8, saved.Since, name)
	}
}
