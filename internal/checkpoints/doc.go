// SPDX-License-Identifier: Apache-2.0

// Package checkpoints shows what a bridge remembers, and changes it for a person who asks for that.
//
// A look takes nothing from a bridge that runs. A change is refused while one runs, as far as that can be seen: a
// bridge locks its file as long as it is open; the commits to a topic or bucket are watched for a while. A bridge whose
// checkpoint was changed nevertheless, which only a broker allows, cannot commit any more, and ends. The next one reads
// back what it has published until then.
//
//   - [Reset] forgets positions and what the log has of each object. What exists is listed again, as a snapshot.
//     Deletions since the last commit that the log does not have are never told. Events are in the log twice where the
//     log cannot be asked for the last one of an object.
//   - [Rewind] moves positions back and forgets nothing. What the API server still shows since then is published again.
//   - [Place.Discard] removes a checkpoint that an older version of the bridge has written.
package checkpoints
