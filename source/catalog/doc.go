// SPDX-License-Identifier: Apache-2.0

// Package catalog follows which resources an API server serves, and which namespaces a cluster has.
//
// What is served is not what exists. An API server that starts lacks the resources that others define. So a resource
// that discovery lacks is not yet gone (see [Catalog.Gone]).
package catalog
