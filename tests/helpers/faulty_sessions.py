from attrs import frozen


@frozen
class Faulty:
    """A session with a fault in what it is fed, or in what it returns."""

    session: object
    fed: object = lambda feeds: feeds
    returned: object = lambda outputs: outputs

    def get_inputs(self):
        return self.session.get_inputs()

    def get_outputs(self):
        return self.session.get_outputs()

    def run(self, names, feeds, *options):
        return self.returned(self.session.run(names, self.fed(feeds), *options))
