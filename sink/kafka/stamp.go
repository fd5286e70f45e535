// SPDX-License-Identifier: Apache-2.0

package kafka

import "time"

// Brokers refuse what is stamped more than an hour after their own time (message.timestamp.after.max.ms), and do not tell what that is. So a batch that was
// made by a clock which is ahead is stamped an hour earlier, then two hours, and so on, until it is taken.
const (
	firstBack = int64(time.Hour / time.Millisecond)
	// mostBack is more than a year: who refuses that too does not refuse because of the time.
	mostBack = firstBack << 14
)

// stamping is by how many milliseconds the timestamps of a load were moved back.
type stamping struct {
	newest, back int64
}

// earlier stamps a load, of which the broker has stored nothing, some time earlier, and gives it the same place in the producer's sequence. It is false if
// that was tried often enough.
func (p *partition) earlier(l *load, s *stamping) bool {
	if s.back == 0 {
		s.back = max(firstBack, p.sink.behind.Load()/2)
	} else {
		s.back *= 2
	}
	if s.back > mostBack || s.newest < s.back {
		return false
	}
	if p.sink.misled.CompareAndSwap(false, true) {
		p.sink.cfg.Log.Warn("the clock of this machine is ahead of the brokers', which refuse its timestamps: records are stamped earlier until they are taken", "at", p.String())
	}
	l.builder.Restamp(s.newest - s.back)
	l.builder.Seal(p.producer.ID, p.producer.Epoch, p.sequence)
	return true
}

// stamped remembers what a broker took, so that the next load need not begin at an hour.
func (s *Sink) stamped(clock *stamping) {
	if clock.back > 0 {
		s.behind.Store(clock.back)
	}
}
