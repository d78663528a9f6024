const perPage = 50
const pagesAtMost = 20

/**
 * The terminals of a client as the provider lists them now, or of one box or store of it by `filter`: `{list, failure}`. Without
 * an answer of the provider the list is empty, and `failure` says why; a lost session or service is thrown.
 */
export async function readTerminals(app, client, signal, filter = {}) {
  const list = []
  try {
    for (let page = 0; page < pagesAtMost; page += 1) {
      const answer = await app.api.get(
        '/terminals',
        { ...app.clientQuery(client), ...filter, limit: perPage, offset: page * perPage },
        signal,
      )
      list.push(...answer.terminals)
      if (answer.terminals.length < perPage) break
    }
    return { list, failure: undefined }
  } catch (failure) {
    if (failure.status === undefined || failure.status === 401) throw failure
    return { list: [], failure }
  }
}
