// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "fmt"

// Format is the number of the format in which all stores keep checkpoints. Format 1 had no epochs.
const Format = 2

// FormatError says that another version of kube-eventbridge has written a checkpoint.
type FormatError struct {
	Path string
	// Format is the one that was found.
	Format string
	// Where is the place of it within the checkpoint; it may be empty.
	Where string
}

// Old reports whether an older version has written the checkpoint.
func (e *FormatError) Old() bool { return e.Format == "1" }

// Error implements error.
func (e *FormatError) Error() string {
	where := ""
	if e.Where != "" {
		where = " (" + e.Where + ")"
	}
	if e.Old() {
		return fmt.Sprintf("checkpoint %s was written by an older version of kube-eventbridge: "+
			"it has format %s%s, and this version has format %d; "+
			"run kube-eventbridge checkpoint reset, and name a new JetStream stream or topic for the log, "+
			"because the events in the old one are numbered in another way", e.Path, e.Format, where, Format)
	}
	return fmt.Sprintf("checkpoint %s has format %q%s, and this kube-eventbridge knows only format %d: "+
		"run the version that wrote it, or give the pipeline another checkpoint to start with a new snapshot, "+
		"which does not tell what was deleted meanwhile", e.Path, e.Format, where, Format)
}

// Permanent implements what [IsPermanent] asks for.
func (*FormatError) Permanent() bool { return true }
