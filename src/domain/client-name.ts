/**
 * The name of a tenant whose existence or right was checked. Repositories take this type and no plain string, so a name
 * that came straight from a request cannot select anybody's rows.
 */
export type ClientName = string & { readonly clientName: unique symbol }

/** Marks a name as checked: only the guards and the first connection of a client do that. */
export function asClientName(name: string): ClientName {
  return name as ClientName
}
