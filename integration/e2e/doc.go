// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the bridge as its users run it: as a process, between a real kube-apiserver and a real broker.
// Tests run side by side; each has servers, ports and directories of its own, or a namespace or a topic of shared
// servers.
//
//	file                  tests
//	bridge                what does not hurt the control plane, on one for all: streams, selectors, Secrets, encodings,
//	                      delivery, filters, the profile for Knative
//	canary                that no redacted value leaves the process
//	checkpoint            the command checkpoint: show, reset, rewind; in a file, in Kafka and in a bucket of NATS
//	crash                 kills and restarts of the bridge and the broker, judged by the oracle
//	election              leaders that are killed, stopped, cut off and robbed of their Lease, judged by the oracle
//	fault                 API servers that restart, compaction, another cluster's checkpoint
//	history               restored etcd, and what a restarted API server does not show
//	kafka                 permissions, brokers that are away, missing topics
//	log_rebuild           a lost checkpoint, rebuilt from the log; a log that has lost its end
//	namespaces            namespaceSelector
//	operations            what docs/operations.md says of checkpoints and passwords
//	output                the commands run -o and asyncapi
//	oversize              objects that are too large for the broker
//	patches               patches and previous states
//	rbac                  the command rbac: what it prints is enough, and all of it is needed
//	reload                a configuration file that changes
//	reload_crash          the same within takeovers and on Kafka
//	reselect              namespaces, selectors and names of an entry that change, across kills
//	resync                the command and the schedule
//	runbook*              the alerts: they fire on their fault and end by their remedy
//	selection             custom resources that come and go, wildcards
//	shared                several pipelines that share a watch
//	status                /api/status, the command status, the page in a browser
//	validate              the command validate --cluster
//	fixture, browser      what the tests are made of
package e2e
