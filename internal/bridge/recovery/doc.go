// SPDX-License-Identifier: Apache-2.0

// Package recovery compares a checkpoint with the log, before anything is read from the API server. The rules are those
// of sequence.Found.Decide: the pipeline resumes, or the checkpoint is lost, or the log is.
package recovery
