/** What the page says in Spanish. */
export const texts = {}
