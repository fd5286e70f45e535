// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

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

// damaged says that the bucket has something under the checkpoint's keys that cannot be understood, or lacks something.
func damaged(path string, err error) error {
	return &checkpoint.DamagedError{
		Path: path, Err: err,
		Advice: "find out who wrote to or deleted from the bucket, and name another bucket",
	}
}

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
