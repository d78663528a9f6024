/**
 * The name of a tenant whose existence or access was checked. Repositories accept this type and no plain string, so a
 * name from an unchecked request cannot select the rows of a client.
 */
export type ClientName = string & { readonly clientName: unique symbol }

/** Marks a name as checked; only the guards and the first connection of a client do that. */
export function asClientName(name: string): ClientName {
  return name as ClientName
}
