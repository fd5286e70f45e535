// SPDX-License-Identifier: Apache-2.0

package oracle

import "fmt"

// checkWriters checks that what a leader has published of an object is not behind what a later one has. Where the log is one sequence, a former leader that does not know of its end
// may still publish the next event of an object that it knows the last one of: once, because its next one is refused, or it ends.
func (s *streamJudge) checkWriters(o *object) {
	newest, late := 0, map[int]int{}
	for _, l := range o.lines {
		switch elected := s.judge.options.Elected; {
		case elected && l.WriterEpoch < 1:
			s.violateLine(P5, l, "it does not say which leader has published it")
		case !elected && l.WriterEpoch != 0:
			s.violateLine(P5, l, "it says that a leader has published it, and none was elected")
		case l.WriterEpoch < newest && (s.judge.options.Partitions > 0 || late[l.WriterEpoch] > 0):
			s.violateLine(P5, l, fmt.Sprintf("leader %d has published it, behind leader %d", l.WriterEpoch, newest))
		case l.WriterEpoch < newest:
			late[l.WriterEpoch]++
			s.judge.report.Late++
		}
		newest = max(newest, l.WriterEpoch)
	}
}
