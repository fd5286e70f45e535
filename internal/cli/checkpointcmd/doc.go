// SPDX-License-Identifier: Apache-2.0

// Package checkpointcmd has the command checkpoint: it shows, lists, rewinds and resets what a pipeline has saved.
package checkpointcmd
