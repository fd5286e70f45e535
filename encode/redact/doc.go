// SPDX-License-Identifier: Apache-2.0

// Package redact keeps secrets out of events: it replaces the values of Secrets, and those that paths name. Where it
// cannot follow an object, that is an error, and the object is not to be published.
package redact
