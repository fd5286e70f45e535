// SPDX-License-Identifier: Apache-2.0

// Package asyncapi describes what pipelines publish, as an AsyncAPI 3.0 document: a channel for each subject or topic,
// and in it a message for each type of event of each resource.
//
// The document is the same whenever it is made of the same. What is not known without a cluster, such as its uid, is a
// parameter of addresses, and a pattern in messages.
package asyncapi
