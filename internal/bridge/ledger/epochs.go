// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Epochs gives out the epochs of a pipeline. The zero value has given none. All methods may be called concurrently.
type Epochs struct {
	mu    sync.Mutex
	given uint64
}

// Next returns a new epoch. The commit of the stream that takes it precedes every event that carries it.
func (e *Epochs) Next() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.given = sequence.NextEpoch(e.given, 0, time.Now())
	return e.given
}

// Announced returns the epoch of a writer that starts: the last one that was given. If none is known the checkpoint is
// new, or lost. The log may have epochs then, each of which was about the time when it was given, and a new one is not
// lower.
func (e *Epochs) Announced() uint64 {
	if given := e.Last(); given > 0 {
		return given
	}
	return e.Next()
}

// Observe takes note of an epoch that the checkpoint or the log has.
func (e *Epochs) Observe(epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.given = max(e.given, epoch)
}

// Last returns the greatest epoch that was given or observed; 0 if there is none.
func (e *Epochs) Last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.given
}

// BeginEpoch makes the next list of a stored stream the one of an epoch in which versions do not compare with those
// before. What is read until then is of the epoch before. A repair that is owed stays one, and its gap tells of the
// lost log: that hides more than a restoration does.
func BeginEpoch(saved *checkpoint.Stream, epoch uint64, position string, why source.Why) {
	owes := checkpoint.Owes{List: sequence.Republish, From: position, Cause: string(why.Cause), Message: why.Message}
	if position == "" {
		owes.From = saved.Owes.From
	}
	if saved.Owes.List == sequence.Repair {
		owes.List = sequence.Repair // under markers of its own
		if why.Cause != source.CauseLogLost {
			owes.From, owes.Cause, owes.Message = saved.Owes.From, saved.Owes.Cause, saved.Owes.Message
		}
	}
	saved.Epoch, saved.Since, saved.Owes = epoch, epoch, owes
	saved.Announced, saved.Unannounced, saved.Replay = "", checkpoint.Snapshot{}, checkpoint.Replay{}
	saved.Floors = nil
	saved.Refused = WithoutVersions(saved.Refused)
}

// Retiring returns the state of a stream whose objects are being deleted in the log, under a number of its own.
func Retiring(saved *checkpoint.Stream, epoch func() uint64, position, why string) checkpoint.Stream {
	next := *saved
	if saved.Retiring {
		return next
	}
	next.Retiring, next.Epoch = true, epoch()
	next.Unannounced = checkpoint.Snapshot{} // it would be announced under a number that is not its own
	if next.Owes.List <= sequence.Reselect {
		next.Owes = checkpoint.Owes{
			List: sequence.Reselect, From: cmp.Or(saved.Owes.From, position, "0"), Cause: string(source.CauseSelection),
			Message: why,
		}
	}
	return next
}

// WithoutVersions returns refused objects without the versions that they had. They do not compare with those of another
// epoch.
func WithoutVersions(refused []checkpoint.Refused) []checkpoint.Refused {
	refused = slices.Clone(refused)
	for i := range refused {
		refused[i].Version = ""
	}
	return refused
}

// ByKey compares a refused object with a key, as the order of a stored stream's refused objects needs it.
func ByKey(o checkpoint.Refused, key string) int { return strings.Compare(o.Key, key) }
