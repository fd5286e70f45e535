// SPDX-License-Identifier: Apache-2.0

package kafka

import "fmt"

// TakenError says that another process has opened the checkpoint since: what this one knows is not what the topic has
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

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*TakenError) Permanent() bool { return true }

// Taken implements what [checkpoint.IsTaken] asks for.
func (*TakenError) Taken() bool { return true }

// Unwrap returns what it was noticed by.
func (e *TakenError) Unwrap() error { return e.Err }

// LostError says that the topic has lost commits that were acknowledged. What it has is older, and good: a new process
// goes on from there.
type LostError struct {
	Path string
	// Has is the number of the last commit that the topic has, Want that of the last one that was acknowledged.
	Has, Want uint64
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("checkpoint %s lost what brokers had acknowledged (it is at commit %d, and was at %d): restart "+
		"to go on from what it has, and give the topic three replicas, min.insync.replicas=2 and "+
		"unclean.leader.election.enable=false", e.Path, e.Has, e.Want)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*LostError) Permanent() bool { return true }

// DamagedError says that the topic has something under the checkpoint's keys that cannot be understood, or lacks
// something.
type DamagedError struct {
	Path      string
	Partition int32
	// Offset is that of the record.
	Offset int64
	Err    error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("checkpoint %s is damaged (partition %d, offset %d: %v): find out who wrote to or deleted from "+
		"the topic, and name another topic to start with a new snapshot, which does not tell what was deleted meanwhile",
		e.Path, e.Partition, e.Offset, e.Err)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*DamagedError) Permanent() bool { return true }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// SettingsError says that the topic cannot keep checkpoints as it is.
type SettingsError struct {
	Topic, Problem string
	// Command mends it.
	Command string
}

// Error implements error.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("topic %s cannot keep checkpoints: %s; mend it with: %s", e.Topic, e.Problem, e.Command)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*SettingsError) Permanent() bool { return true }

// UnfencedError says that nobody could be kept from using the same checkpoint, where that is asked for.
type UnfencedError struct {
	Path, TransactionalID string
	Err                   error
}

// Error implements error.
func (e *UnfencedError) Error() string {
	return fmt.Sprintf("checkpoint %s cannot be kept from a former leader: the permission to write to transactional id "+
		"%s is missing (%v); allow WRITE on it, which leaderElection needs", e.Path, e.TransactionalID, e.Err)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*UnfencedError) Permanent() bool { return true }

// Unwrap returns what the broker says.
func (e *UnfencedError) Unwrap() error { return e.Err }
