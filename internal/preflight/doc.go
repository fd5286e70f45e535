// SPDX-License-Identifier: Apache-2.0

// Package preflight asks an API server and brokers whether a configuration could run: whether resources exist and may
// be read, and whether streams, topics and checkpoints have sound settings. It makes and changes nothing.
package preflight
