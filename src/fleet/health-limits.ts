/**
 * A terminal that is on shows an order within seconds. One that did not after so long, although the provider was asked,
 * is off or offline. With status checks every 2 s and a derivation every 6 s this is known within 30 s of the first
 * charge.
 */
export const silentAfterMs = 20_000

/** Until then a charge on the terminal of its own box counts as a customer who is paying. */
export const payingForMs = 3 * 60_000

/** The provider ends an order on a terminal a little after its expiry. */
export const expiryGraceMs = 60_000

/** A success this recent counts as working. */
export const freshMs = 15 * 60_000

/** So many refusals in a row are a problem of the box, not of one sale. */
export const manyRefusals = 3
/** So many boxes of a client that cannot charge are a problem of the provider, not of a box. */
export const failingBoxes = 2

/** A token that cannot be renewed is shown as a problem so long before it expires. */
export const tokenEndsWithinMs = 7 * 24 * 3600_000
/** A renewal that takes longer is stuck. */
export const renewalStuckMs = 10 * 60_000

/** So many payments without a webhook, over so long a time, count as missing webhooks. */
export const missingWebhooks = 5
export const missingWebhooksForMs = 5 * 60_000
/** How far back they are counted. */
export const withoutWebhookWithinMs = 15 * 60_000
/** How long a webhook may take after its payment was seen. */
export const webhookLagMs = 60_000

/** The maximum age of an order that waits for a decision and is shown with its box. */
export const undecidedWithinMs = 32 * 24 * 3_600_000

/** How late a flow may be, in addition to two of its intervals. */
export const pollGraceMs = 60_000
/** How long a delivery may wait for a destination without another problem. */
export const waitingForMs = 15 * 60_000
