/** Countries ("sites" of the provider) whose currency takes no cents at the provider (provider news 11; issue 28.7). */
const wholeCurrencies: Record<string, string> = { MLC: 'CLP', MCO: 'COP', MPY: 'PYG' }

/** Whether amounts of this currency (`CLP`) are sent without decimals. */
export function isWholeCurrency(currency: string | null): boolean {
  return Object.values(wholeCurrencies).some((known) => known === currency)
}

/** The currency of a site that takes no cents; undefined for every other site, and where the site is not known. */
export function wholeCurrencyOf(siteId: string | null | undefined): string | undefined {
  return wholeCurrencies[siteId ?? '']
}
