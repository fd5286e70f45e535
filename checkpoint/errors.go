// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "fmt"

// TakenError says that another process has opened the checkpoint since: what this one knows is not what the broker has
// any more.
type TakenError struct {
	Path string
	// Err is what it was noticed by.
	Err error
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("another kube-eventbridge uses checkpoint %s (%v): run one process for a pipeline of a cluster, "+
		"or set leaderElection for both", e.Path, e.Err)
}

// Permanent implements what [IsPermanent] asks for.
func (*TakenError) Permanent() bool { return true }

// Taken implements what [IsTaken] asks for.
func (*TakenError) Taken() bool { return true }

// Unwrap returns what it was noticed by.
func (e *TakenError) Unwrap() error { return e.Err }

// DamagedError says that what is stored cannot be understood, or lacks something, although it could be read.
type DamagedError struct {
	Path string
	Err  error
	// Advice says how to go on.
	Advice string
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("checkpoint %s is damaged (%v): %s to start with a new snapshot, which does not tell what was "+
		"deleted meanwhile", e.Path, e.Err, e.Advice)
}

// Permanent implements what [IsPermanent] asks for.
func (*DamagedError) Permanent() bool { return true }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }
