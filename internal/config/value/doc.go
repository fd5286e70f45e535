// SPDX-License-Identifier: Apache-2.0

// Package value has what a value of the configuration file can be that is more than a text or a number: the name of a
// resource, a size, a limit, an address. Each is judged by itself: it knows neither its key nor another value.
package value
