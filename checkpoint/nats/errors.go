// SPDX-License-Identifier: Apache-2.0

package nats

import "fmt"

// TakenError says that another process has opened the checkpoint since: what this one knows is not what the bucket has
// any more.
type TakenError struct {
	Path string
	// Epoch is that of the other one.
	Epoch uint64
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("another kube-eventbridge uses checkpoint %s (epoch %d): run one process for a pipeline of a "+
		"cluster, or set leaderElection for both", e.Path, e.Epoch)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*TakenError) Permanent() bool { return true }

// Taken implements what [checkpoint.IsTaken] asks for.
func (*TakenError) Taken() bool { return true }

// LostError says that the bucket has lost commits that were acknowledged. What it has is older, and good: a new process
// goes on from there.
type LostError struct {
	Path string
	// Has is the sequence of the last message that the bucket has, Want that of the last one that was acknowledged.
	Has, Want uint64
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("checkpoint %s lost what the server had acknowledged (it ends at sequence %d, and ended at %d): "+
		"restart to go on from what it has, and give the bucket three replicas, or its server sync_interval: always", e.Path,
		e.Has, e.Want)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*LostError) Permanent() bool { return true }

// DamagedError says that the bucket has something under the checkpoint's keys that cannot be understood, or lacks
// something.
type DamagedError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf(
		"checkpoint %s is damaged (%v): find out who wrote to or deleted from the bucket, and name another bucket "+
			"to start with a new snapshot, which does not tell what was deleted meanwhile", e.Path, e.Err)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*DamagedError) Permanent() bool { return true }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// SettingsError says that the bucket cannot keep checkpoints as it is.
type SettingsError struct {
	Bucket, Problem string
	// Advice says what to do.
	Advice string
}

// Error implements error.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("bucket %s cannot keep checkpoints: %s; %s", e.Bucket, e.Problem, e.Advice)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*SettingsError) Permanent() bool { return true }
