// SPDX-License-Identifier: Apache-2.0

// Package metric says which metrics there are: their names, types and labels, what they mean, and what to look for.
// What counts is elsewhere; it takes the definitions from here, as the reference for people does.
//
// Labels have values of the configuration, of the API server's resources and of this program. None has an object's
// name, or anything that an object says.
package metric
