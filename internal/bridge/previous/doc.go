// SPDX-License-Identifier: Apache-2.0

// Package previous keeps what was before, of the objects that a pipeline watches: compressed, in memory only, and no
// more than its budget lets it. Patches are made from it, and filters ask for it.
package previous
