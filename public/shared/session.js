/** The token lives in this tab only (sessionStorage): never in an address, a cookie or a lasting store. */
const tokenName = 'tillbridge.token'
const languageName = 'tillbridge.language'

export function storedToken() {
  return read(() => sessionStorage.getItem(tokenName))
}

export function storeToken(token) {
  read(() => sessionStorage.setItem(tokenName, token))
}

export function forgetToken() {
  read(() => sessionStorage.removeItem(tokenName))
}

export function storedLanguage() {
  return read(() => localStorage.getItem(languageName))
}

/** Also where the service sees it, which then sends the page with the texts of this language. */
export function storeLanguage(language) {
  read(() => localStorage.setItem(languageName, language))
  read(() => {
    // biome-ignore lint/suspicious/noDocumentCookie: the cookie store is not there without https, as within a shop.
    document.cookie = `${languageName}=${language}; path=/; max-age=31536000; samesite=strict`
  })
}

/** A browser that forbids storage throws on every touch; the page then works until it is reloaded. */
function read(access) {
  try {
    return access() ?? null
  } catch {
    return null
  }
}
