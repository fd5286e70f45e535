// SPDX-License-Identifier: Apache-2.0

package kafka

import "time"

// earlier stamps a load, of which the broker has stored nothing because of its time, again, and gives it the same place
// in the producer's sequence. It is false if that was tried often enough; times is how often.
func (p *partition) earlier(l *load, times *int) bool {
	*times++
	stamp, ok := p.sink.cfg.Clock.Refused(time.UnixMilli(l.builder.Newest()), *times)
	if !ok {
		return false
	}
	if p.sink.misled.CompareAndSwap(false, true) {
		p.sink.cfg.Log.Warn("the clock of this machine is ahead of the brokers', which refuse its timestamps: records are "+
			"stamped earlier until they are taken", "at", p.String())
	}
	l.builder.Restamp(stamp.UnixMilli())
	l.builder.Seal(p.producer.ID, p.producer.Epoch, p.sequence)
	return true
}
