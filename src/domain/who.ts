/** Who did something, by a name that people know. */
export type Who = {
  kind: 'person' | 'key' | 'administrator' | 'service'
  /** Of a person, or the description or mask of a key; null for the others. */
  name: string | null
}
