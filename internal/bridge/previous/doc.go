// SPDX-License-Identifier: Apache-2.0

// Package previous caches the previous states of the objects that a pipeline watches. They are compressed, in memory
// only, and within a budget. Patches are made from them, and filters ask for them.
package previous
