// SPDX-License-Identifier: Apache-2.0

// Package jsonscan goes through JSON without decoding it: members, elements, and the values that paths name. JSON is
// taken to be valid; of anything else the outcome is arbitrary, or an error, but never a panic. Of members that repeat
// each is shown.
package jsonscan

import "errors"

// ErrNotObject says that something is not a JSON object.
var ErrNotObject = errors.New("the body is not a JSON object")
