import { ConnectionError } from './api.js'

/**
 * Views that are not seen first, as functions that create them, out of `laterViews` of the module that `read` imports. Until
 * it is there a view shows that it is on its way, under `titleOf(app)`.
 */
export function viewsLater(read, titleOf) {
  let views
  const ready = async () => {
    try {
      views ??= (await read()).laterViews
    } catch (error) {
      throw error instanceof TypeError ? new ConnectionError(error) : error
    }
  }
  const create = (name) => (app) => {
    if (views) return views[name](app)
    let view
    return {
      get isOfOne() {
        return view?.isOfOne
      },
      title: () => view?.title() ?? titleOf(app),
      heading: () => view?.heading?.(),
      head: () => view?.head?.(),
      actions: () => view?.actions?.(),
      async load(signal) {
        await ready()
        view ??= views[name](app)
        await view.load(signal)
      },
      body: () => view?.body() ?? app.placeholder(),
    }
  }
  return { ready, create }
}
