// SPDX-License-Identifier: Apache-2.0

// Package previous caches the previous states of the objects that a pipeline watches. They are compressed, in memory
// only, and within a budget. Patches are made from them, and filters ask for them.
//
// # Rules that are easy to break
//
//   - A patch applies to what the log has, not to the state that was seen last. The version of a row that a filter
//     has moved is that of a state that was left out. The row's place says which event the log has last. So a
//     previous state is kept with that place, and used only while the row has it.
//   - A row's form tells whether the log has the state of its version whole, as this configuration would publish it,
//     and as the API server serves it now. Only then is the state that a restart reads the state that the log has.
//   - An event that is made from the event before is published right behind it, or not at all. The broker checks the
//     last sequence of each such event, even if no other check is due.
package previous
