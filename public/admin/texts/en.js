/** What the page says in English. */
export const texts = {}
