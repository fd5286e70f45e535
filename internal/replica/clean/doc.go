// SPDX-License-Identifier: Apache-2.0

// Package clean knows what is removed from an object, and what is added, on its way from a source cluster to a target
// cluster. It is pure: it asks no cluster and keeps no state.
//
// The rules are data: [Common] for every object, [Kinds] for built-in kinds, [Exclusions] for resources that are left
// out, and [Singles] for objects that are. docs/replicate-fields.md is made of them.
//
// Objects are decoded JSON: map[string]any, []any, string, bool, nil, and json.Number.
package clean
