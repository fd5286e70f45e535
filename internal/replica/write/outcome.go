// SPDX-License-Identifier: Apache-2.0

package write

// Outcome says what an answer means. Every answer has exactly one. Its text is fit for a label of a metric.
type Outcome string

// The outcomes. Unless Done is the outcome, nothing was changed; but after [Unavailable] and [Failed] it is unknown
// whether something was.
const (
	// Done: the API server did it.
	Done Outcome = "done"
	// Exists: there is an object of this name already, possibly one that is being deleted.
	Exists Outcome = "exists"
	// Stale: uid or resourceVersion are not those of the object. An apply to an object that does not exist is
	// answered so too, even in a namespace that does not exist. Read the object again.
	Stale Outcome = "stale"
	// Conflict: others own fields that an apply without force would change. Causes name the fields, one each; the API
	// server names the managers only in the message. An entry of our own that a Put has left counts as another's until
	// [Target.Upgrade]. The object may be another version too: the API server looks for conflicts first.
	Conflict Outcome = "conflict"
	// Unappliable: server-side apply cannot carry this object, and a Put or a Post can: a list has a key twice, a field
	// is not in the schema, or the API server cannot apply at all.
	Unappliable Outcome = "unappliable"
	// NoNamespace: the namespace does not exist.
	NoNamespace Outcome = "no-namespace"
	// Terminating: the namespace is being deleted, and takes no new objects.
	Terminating Outcome = "terminating"
	// NoResource: the resource is not served, for example because its definition is absent, or was made a moment ago. So
	// is a subresource status that the kind does not have.
	NoResource Outcome = "no-resource"
	// Gone: there is no such object.
	Gone Outcome = "gone"
	// Invalid: the API server does not accept the object as it is. Causes have the fields, unless the object cannot be
	// decoded. A change of an immutable field is answered in the same way as a bad value: [Target.TryCreate]
	// tells them apart.
	Invalid Outcome = "invalid"
	// Denied: a webhook or a ValidatingAdmissionPolicy refuses. A webhook can give its refusal any shape. One that looks
	// like the API server's own counts as that: it names the object, or has the reason BadRequest, or one of the codes
	// 401, 413, 429 and 5xx.
	Denied Outcome = "denied"
	// Forbidden: authorization (RBAC) refuses, or an admission plugin of the API server: ResourceQuota, LimitRange, Pod
	// Security, a missing PriorityClass. So does a resource whose definition is being deleted. All have the same
	// structure.
	Forbidden Outcome = "forbidden"
	// TooLarge: the request is larger than the API server reads. What is larger than etcd takes has Failed.
	TooLarge Outcome = "too-large"
	// Throttled: the API server asks for fewer requests.
	Throttled Outcome = "throttled"
	// Failed: the API server cannot do this request, and says no more: a webhook does not answer, etcd takes no object
	// of this size or none at all, a quota is contended. Other objects may do well.
	Failed Outcome = "failed"
	// Unavailable: there was no answer, or not one of an API server that can do anything about the object: a failed
	// connection, a timeout, a proxy's page, refused credentials.
	Unavailable Outcome = "unavailable"
)
