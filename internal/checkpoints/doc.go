// SPDX-License-Identifier: Apache-2.0

// Package checkpoints shows what a bridge remembers, and changes it for a person who asks for that.
//
// To look takes nothing from a bridge that runs. To change is refused while one does, as far as that can be seen: a file is locked as long as a bridge has it
// open; a topic is watched for commits. A bridge whose checkpoint was changed all the same, which only a topic allows, cannot commit any more, and ends; what it published
// until then is read back by the next one.
//
//   - [Reset] forgets positions and what the log has of each object. What exists is listed anew, as a snapshot. What was deleted since the last commit, and is not in
//     the log, is never told; and events are in the log twice where it cannot be asked for the last one of an object.
//   - [Rewind] moves positions back and forgets nothing. What the API server still shows since then is published again.
package checkpoints
