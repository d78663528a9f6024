/** One destination of one flow. */
export type DeliveryTarget = { flow: string; destination: string }
