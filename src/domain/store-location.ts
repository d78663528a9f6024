/** Where a store is, as the provider wants it. */
export type StoreLocation = {
  streetName: string
  streetNumber: string
  cityName: string
  stateName: string
  /** Degrees. */
  latitude: number
  /** Degrees. */
  longitude: number
  reference: string | null
}
