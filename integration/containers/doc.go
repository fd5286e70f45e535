// SPDX-License-Identifier: Apache-2.0

// Package containers tests the bridge as a process beside brokers and an API server that run in containers, which
// testcontainers-go starts.
//
// The images are chosen by the environment variable KUBE_EVENTBRIDGE_IMAGES. With "scratch", the default, they are
// built FROM scratch, without the network, out of what the other tests build and fetch anyway; with "official" they are
// those of the projects, which the engine pulls. What was built stays in the engine under a name with a hash of its
// contents, so that it is built once.
//
// Without a Docker engine the tests are skipped, and say so; if CI is set they fail, unless KUBE_EVENTBRIDGE_NO_ENGINE
// says why there is none.
package containers
