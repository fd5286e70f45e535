// SPDX-License-Identifier: Apache-2.0

package kafka

import "fmt"

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

// UnfencedError says that no process could be kept from using the same checkpoint, where that is asked for.
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
