// SPDX-License-Identifier: Apache-2.0

// Package interop tests that clients of other projects read what the bridge writes: Kafka's console consumer,
// kcat, and the CloudEvents SDKs of Java, Python, Node and Go, from a real Kafka and a real NATS server, in binary and
// structured mode.
//
// The AsyncAPI document of the bridge is read by AsyncAPI's own parser, and every message is one that it describes.
//
// The clients are the examples of docs/consumers, in the folders java, python, node, go and shell. What they need is
// installed once, in exact versions, into the cache by "go run ./interop/install"; afterwards no network is needed.
// Without that the tests are skipped.
package interop
